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
