"""Tries to get out of a sandbox, one way after the other, and says what came of each.

Reads where things are from a JSON file beside it; prints a line `ATTEMPT: OUTCOME` for each, where the
outcome is `escapes`, the name of an error, or what else kept it in.
"""

import ctypes
import errno
import fcntl
import json
import os
import platform
import resource
import socket
import stat
import struct
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
with open(os.path.join(HERE, "escapes.json")) as file:
    AT = json.load(file)

LIBC = ctypes.CDLL(None, use_errno=True)
IS_X86 = platform.machine() == "x86_64"
ATTEMPTS = []


def attempt(function):
    ATTEMPTS.append(function)
    return function


def syscall(number, *arguments):
    done = LIBC.syscall(ctypes.c_long(number), *[ctypes.c_long(a) for a in arguments])
    if done < 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    return done


def read(path):
    with open(path, "rb") as opened:
        if not opened.read(1):
            return "empty"
    return "escapes"


def write(path):
    with open(path, "ab") as opened:
        opened.write(b"escaped\n")
    return "escapes"


# --- what is out of sight


@attempt
def read_an_ssh_key():
    return read(AT["home"] + "/.ssh/id_ed25519")


@attempt
def read_cloud_credentials():
    return read(AT["home"] + "/.aws/credentials")


@attempt
def read_a_token_that_nobody_thought_of():
    return read(AT["home"] + "/.unheard-of/token")


@attempt
def read_cargos_token():
    return read(AT["home"] + "/.cargo/credentials.toml")


@attempt
def read_uvs_token():
    return read(AT["home"] + "/.local/share/uv/credentials/credentials.toml")


@attempt
def read_a_token_among_caches():
    return read(AT["home"] + "/.cache/unheard-of/token")


@attempt
def read_a_start_script_of_gradle():
    return read(AT["home"] + "/.gradle/init.d/private.gradle")


@attempt
def read_a_key_of_dotnet():
    return read(AT["home"] + "/.dotnet/corefx/cryptography/x509stores/my/key.pfx")


@attempt
def read_a_token_in_cargos_settings():
    return read(AT["home"] + "/.cargo/config.toml")


@attempt
def read_the_systems_passwords():
    return read("/etc/shadow")


@attempt
def read_the_servers_token():
    return read(AT["data"] + "/token")


@attempt
def read_a_key_through_a_link():
    link = os.path.join(HERE, "link")
    os.symlink(AT["home"] + "/.ssh/id_ed25519", link)
    try:
        return read(link)
    finally:
        os.unlink(link)


@attempt
def read_a_key_through_proc_self_root():
    return read("/proc/self/root" + AT["home"] + "/.ssh/id_ed25519")


@attempt
def read_a_key_through_the_root_of_a_process():
    return read("/proc/%d/root%s/.ssh/id_ed25519" % (AT["process"], AT["home"]))


@attempt
def read_a_key_through_a_replaced_directory():
    root = AT["workspace"] + "/root-of-another-session"
    os.mkdir(root)
    os.rename(root, root + "-old")
    os.symlink(AT["home"], root)
    try:
        return read(root + "/.ssh/id_ed25519")
    finally:
        os.unlink(root)


@attempt
def put_another_directory_in_place_of_the_workspace():
    os.rename(AT["workspace"], AT["workspace"] + "-old")
    os.rename(AT["workspace"] + "-old", AT["workspace"])
    return "escapes"


@attempt
def read_the_environment_of_a_process():
    return read("/proc/%d/environ" % AT["process"])


# --- what must not change


@attempt
def write_a_file_outside():
    return write(AT["outside"] + "/mine")


@attempt
def make_a_file_outside():
    return write(AT["outside"] + "/new")


@attempt
def empty_a_file_outside():
    os.truncate(AT["outside"] + "/mine", 0)
    return "escapes"


@attempt
def change_the_mode_of_a_file_outside():
    os.chmod(AT["outside"] + "/mine", 0o755)
    return "escapes"


@attempt
def link_a_file_outside_into_the_workspace():
    hard = os.path.join(HERE, "hard")
    os.link(AT["outside"] + "/mine", hard)
    return write(hard)


@attempt
def add_to_a_shells_start():
    return write(AT["home"] + "/.bashrc")


@attempt
def make_a_shells_start():
    return write(AT["home"] + "/.profile")


@attempt
def make_a_git_hook():
    return write(AT["workspace"] + "/.git/hooks/pre-commit")


@attempt
def name_other_git_hooks():
    return write(AT["workspace"] + "/.git/config")


@attempt
def put_another_repository_in_place():
    os.rename(AT["workspace"] + "/.git", AT["workspace"] + "/.git-old")
    os.rename(AT["workspace"] + "/.git-old", AT["workspace"] + "/.git")
    return "escapes"


@attempt
def lead_git_to_another_repository():
    return write(AT["workspace"] + "/.git/commondir")


@attempt
def name_hooks_of_a_nested_repository():
    return write(AT["workspace"] + "/nested/.git/config")


@attempt
def rename_what_holds_a_repository():
    os.rename(AT["workspace"] + "/nested", AT["workspace"] + "/nested-old")
    os.rename(AT["workspace"] + "/nested-old", AT["workspace"] + "/nested")
    return "escapes"


@attempt
def plant_a_repository():
    bare = AT["workspace"] + "/planted"
    os.makedirs(bare + "/objects")
    os.makedirs(bare + "/refs")
    with open(bare + "/HEAD", "w") as head:
        head.write("ref: refs/heads/main\n")
    with open(bare + "/config", "w") as config:
        config.write("[core]\n\tfsmonitor = ./evil\n")
    return "escapes"


@attempt
def change_an_editors_tasks():
    return write(AT["workspace"] + "/.vscode/tasks.json")


@attempt
def make_a_file_that_direnv_runs():
    return write(AT["workspace"] + "/.envrc")


@attempt
def write_to_the_servers_program():
    with open("/proc/%d/exe" % os.getppid(), "r+b"):
        return "escapes"


@attempt
def make_a_device():
    device = os.path.join(HERE, "disk")
    os.mknod(device, stat.S_IFBLK | 0o600, os.makedev(254, 0))
    return "escapes"


# --- files that give their rights to other users


def is_kept(path, bit):
    """Whether the bit is there; some file systems drop it without a word."""
    kept = os.stat(path).st_mode & bit
    os.unlink(path)
    return "escapes" if kept else "dropped"


def program(name):
    path = os.path.join(HERE, name)
    with open(path, "w") as made:
        made.write("#!/bin/sh\n")
    return path


@attempt
def set_the_user_of_a_program():
    path = program("set-uid")
    os.chmod(path, 0o4755)
    return is_kept(path, stat.S_ISUID)


@attempt
def set_the_group_of_a_program():
    path = program("set-gid")
    os.chmod(path, 0o2755)
    return is_kept(path, stat.S_ISGID)


@attempt
def set_the_user_of_an_open_program():
    path = program("set-uid-open")
    with open(path) as opened:
        os.fchmod(opened.fileno(), 0o4755)
    return is_kept(path, stat.S_ISUID)


@attempt
def set_the_user_of_a_program_by_the_newest_call():
    path = program("set-uid-newest")
    name = ctypes.create_string_buffer(path.encode())
    syscall(452, -100, ctypes.addressof(name), 0o4755, 0)
    return is_kept(path, stat.S_ISUID)


@attempt
def open_a_new_program_with_its_user_set():
    path = os.path.join(HERE, "set-uid-opened")
    os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o4755))
    return is_kept(path, stat.S_ISUID)


@attempt
def open_a_new_program_by_the_newest_call():
    path = os.path.join(HERE, "set-uid-opened-newest")
    name = ctypes.create_string_buffer(path.encode())
    how = ctypes.create_string_buffer(struct.pack("<QQQ", os.O_CREAT | os.O_WRONLY, 0o4755, 0))
    os.close(syscall(437, -100, ctypes.addressof(name), ctypes.addressof(how), 24))
    return is_kept(path, stat.S_ISUID)


@attempt
def make_a_node_with_its_user_set():
    path = os.path.join(HERE, "set-uid-node")
    os.mknod(path, stat.S_IFREG | 0o4755)
    return is_kept(path, stat.S_ISUID)


# --- the network, and what listens on this machine


@attempt
def connect_over_tcp():
    with socket.create_connection(("127.0.0.1", AT["tcp"]), 2):
        return "escapes"


@attempt
def send_over_udp_to_this_machine():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
        udp.connect(("127.0.0.1", AT["udp"]))
        udp.send(b"escaped")
        udp.settimeout(2)
        udp.recv(16)
        return "escapes"


@attempt
def send_over_udp_to_the_network():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
        udp.sendto(b"escaped", ("192.0.2.1", 53))
        return "escapes"


@attempt
def connect_to_a_socket_by_its_path():
    with socket.socket(socket.AF_UNIX) as unix:
        unix.connect(AT["outside"] + "/agent.sock")
        return "escapes"


def connect(path):
    with socket.socket(socket.AF_UNIX) as unix:
        unix.connect(path)
        return "escapes"


@attempt
def connect_to_a_socket_with_a_relative_name():
    return connect(AT["outside"] + "/relative.sock")


@attempt
def connect_to_a_socket_that_was_moved():
    return connect(AT["outside"] + "/moved.sock")


@attempt
def connect_to_a_socket_in_the_workspace():
    return connect(AT["workspace"] + "/daemon.sock")


@attempt
def connect_to_a_socket_that_is_made_meanwhile():
    with open(AT["workspace"] + "/ask", "w") as ask:
        ask.write("make it\n")
    with open(AT["workspace"] + "/answer") as answer:
        answer.read()
    return connect(AT["workspace"] + "/late.sock")


@attempt
def send_to_a_socket_from_one_of_a_pair():
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    ours.sendto(b"escaped", AT["outside"] + "/datagrams.sock")
    return "escapes"


@attempt
def connect_to_a_socket_without_a_path():
    with socket.socket(socket.AF_UNIX) as unix:
        unix.connect("\0" + AT["abstract"])
        return "escapes"


@attempt
def open_a_socket_to_the_hypervisor():
    socket.socket(40, socket.SOCK_STREAM).close()
    return "escapes"


@attempt
def open_a_socket_of_the_kernels_ciphers():
    socket.socket(38, socket.SOCK_SEQPACKET).close()
    return "escapes"


@attempt
def open_a_ring_that_makes_sockets():
    parameters = ctypes.create_string_buffer(256)
    number = syscall(425, 1, ctypes.addressof(parameters))
    os.close(number)
    return "escapes"


# --- other processes, the kernel, the machine


@attempt
def signal_a_process():
    os.kill(AT["process"], 18)
    return "escapes"


@attempt
def trace_a_process():
    # PTRACE_SEIZE stops nobody.
    syscall(101 if IS_X86 else 117, 0x4206, AT["process"], 0, 0)
    return "escapes"


@attempt
def make_a_user_namespace():
    syscall(272 if IS_X86 else 97, 0x10000000)
    return "escapes"


@attempt
def mount_something():
    path = ctypes.create_string_buffer(HERE.encode())
    kind = ctypes.create_string_buffer(b"tmpfs")
    number = 165 if IS_X86 else 40
    syscall(number, ctypes.addressof(kind), ctypes.addressof(path), ctypes.addressof(kind), 0, 0)
    return "escapes"


@attempt
def read_the_users_keys():
    # KEYCTL_GET_KEYRING_ID of the session's keyring.
    syscall(250 if IS_X86 else 219, 0, -3, 1)
    return "escapes"


@attempt
def load_a_program_into_the_kernel():
    union = ctypes.create_string_buffer(struct.pack("<IIIII", 1, 4, 4, 1, 0).ljust(128, b"\0"))
    syscall(321 if IS_X86 else 280, 0, ctypes.addressof(union), 128)
    return "escapes"


@attempt
def use_the_other_numbers_of_system_calls():
    if not IS_X86:
        return "ENOSYS"
    syscall(0x40000000 + 39)
    return "escapes"


@attempt
def type_at_a_terminal():
    master, slave = os.openpty()
    fcntl.ioctl(slave, 0x5412, b"x")
    return "escapes"


@attempt
def write_to_the_kernels_settings():
    # Opened only: without a sandbox, root would change it for the whole machine.
    with open("/proc/sys/kernel/core_pattern", "r+b"):
        return "escapes"


# --- how much may be taken


@attempt
def start_too_many_processes():
    children = []
    outcome = "escapes"
    for _ in range(AT["processes"] + 50):
        try:
            child = os.fork()
        except OSError as error:
            outcome = errno.errorcode[error.errno]
            break
        if child == 0:
            import signal

            signal.pause()
            os._exit(0)
        children.append(child)
    for child in children:
        os.kill(child, 9)
        os.waitpid(child, 0)
    return outcome


@attempt
def take_too_much_memory():
    memory = bytearray(AT["memory"] + 1024)
    return "escapes" if memory else "empty"


@attempt
def fill_memory_that_is_shared():
    import mmap
    import signal

    child = os.fork()
    if child == 0:
        memory = mmap.mmap(-1, AT["total_memory"] + (64 << 20))
        for page in range(0, len(memory), 4096):
            memory[page] = 1
        os._exit(0)
    _, status = os.waitpid(child, 0)
    return "killed" if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL else "escapes"


@attempt
def make_a_file_among_devices():
    return write("/dev/escaped")


@attempt
def fill_the_directory_of_shared_memory():
    with open("/dev/shm/escaped", "w"):
        os.unlink("/dev/shm/escaped")
    size = os.statvfs("/dev/shm")
    return "escapes" if size.f_blocks * size.f_frsize > AT["shared"] else "bounded"


@attempt
def write_too_large_a_file():
    import signal

    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    with open(os.path.join(HERE, "large"), "wb") as large:
        large.truncate(AT["file"] + 1)
    return "escapes"


@attempt
def leave_the_memory_of_a_crash():
    soft, _ = resource.getrlimit(resource.RLIMIT_CORE)
    return "escapes" if soft else "none"


def main():
    for function in ATTEMPTS:
        name = function.__name__.replace("_", " ")
        try:
            outcome = function()
        except MemoryError:
            outcome = "ENOMEM"
        except TimeoutError:
            outcome = "ETIMEDOUT"
        except OSError as error:
            outcome = errno.errorcode.get(error.errno, str(error))
        print("%s: %s" % (name, outcome), flush=True)


if __name__ == "__main__":
    sys.exit(main())
