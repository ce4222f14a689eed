//! Which system calls a command may make: a list of those that it may not.
//!
//! A list of what is allowed would be shorter to reason about, and would break a program with every
//! new kernel. What stands here either leads out of the cage or is for administrators only.

use std::collections::BTreeMap;
use std::io;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, sock_filter,
};

/// Which sockets can be made.
///
/// A Unix socket reaches every socket whose path can be seen, and no namespace or read-only mount
/// keeps it from that. A filter sees the kind of a socket and not the path that it connects to. So
/// there are none by default, except for connected pairs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sockets {
    /// All of the usual kinds.
    Usual,
    /// Those of the network, which a namespace or the user limits, and pairs.
    NetworkOnly,
    /// Only pairs.
    PairsOnly,
}

/// Calls that are refused with `EPERM`.
const REFUSED: &[libc::c_long] = &[
    // Other processes, also those that are not below us.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    // Mounts, roots and namespaces.
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_open_tree,
    libc::SYS_move_mount,
    libc::SYS_mount_setattr,
    libc::SYS_unshare,
    libc::SYS_setns,
    // Files by their number, past every path.
    libc::SYS_open_by_handle_at,
    libc::SYS_name_to_handle_at,
    // Keys of the user or the session.
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    // The kernel and the machine.
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_syslog,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_adjtimex,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_vhangup,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_iopl,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ioperm,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_kexec_file_load,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_modify_ldt,
];

/// Calls that are refused besides where there is no namespace of the command's own: memory, queues
/// and semaphores that all programs of a user share.
const REFUSED_ALONE: &[libc::c_long] = &[
    libc::SYS_shmget,
    libc::SYS_shmat,
    libc::SYS_msgget,
    libc::SYS_semget,
    libc::SYS_mq_open,
];

/// Calls that set the mode of a file, and which argument that is: with them, a program could be made
/// that gives its owner's rights to other users of the machine.
const SETTING_MODES: &[(libc::c_long, u8)] = &[
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_chmod, 1),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_creat, 1),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_mknod, 1),
    (libc::SYS_fchmod, 1),
    (libc::SYS_fchmodat, 2),
    (libc::SYS_fchmodat2, 2),
    (libc::SYS_mknodat, 2),
];

/// Calls that make a file when their flags say so: which arguments are the flags and the mode.
const OPENING: &[(libc::c_long, u8, u8)] = &[
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_open, 1, 2),
    (libc::SYS_openat, 2, 3),
];

/// Flags with which such a call looks at its mode. `O_TMPFILE` has a second bit that others use.
const MAKING: [libc::c_int; 2] = [libc::O_CREAT, libc::O_TMPFILE & !libc::O_DIRECTORY];

/// The user and the group that a program runs as.
const SET_ID: [libc::mode_t; 2] = [libc::S_ISUID, libc::S_ISGID];

/// The kind of a socket, without flags.
const SOCKET_KIND: u64 = 0xf;

/// Kinds of Unix sockets that send to any path, also when they are one of a pair. The second is
/// another name of the first.
const SENDING_ANYWHERE: [libc::c_int; 2] = [libc::SOCK_DGRAM, libc::SOCK_RAW];

/// Calls that this kernel pretends not to know, so that programs take the older one.
const UNKNOWN: &[libc::c_long] = &[
    // Their flags lie in memory, where no filter sees them.
    libc::SYS_clone3,
    libc::SYS_openat2,
    // It makes sockets, and opens files, past every filter.
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
];

/// New namespaces, by `clone`.
const NAMESPACES: libc::c_int = libc::CLONE_NEWUSER
    | libc::CLONE_NEWNS
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWCGROUP;

/// Typing on behalf of whoever sits at a terminal.
const TYPING: [u32; 2] = [0x5412, 0x541c];

/// Filters this thread, and all that it becomes or starts. There is no way back.
///
/// # Errors
/// If the kernel does not take the filter.
pub(super) fn apply(sockets: Sockets, is_alone: bool) -> io::Result<()> {
    for program in [other_numbers(), unknown()?, refused(sockets, is_alone)?] {
        seccompiler::apply_filter(&program).map_err(io::Error::other)?;
    }
    Ok(())
}

fn refused(sockets: Sockets, is_alone: bool) -> io::Result<BpfProgram> {
    let mut rules = always(REFUSED);
    rules.append(&mut set_id()?);
    if is_alone {
        rules.append(&mut always(REFUSED_ALONE));
        // The limits of others; one's own are those of nobody in particular.
        let of_others = rule([(0, SeccompCmpOp::Ne, 0)])?;
        rules.insert(libc::SYS_prlimit64, vec![of_others]);
    }
    let mut new_namespaces = Vec::new();
    for bit in (0..31).map(|shift| 1 << shift) {
        if NAMESPACES & bit != 0 {
            let bit = u64::from(bit.cast_unsigned());
            new_namespaces.push(rule([(0, SeccompCmpOp::MaskedEq(bit), bit)])?);
        }
    }
    rules.insert(libc::SYS_clone, new_namespaces);
    let typing = TYPING.map(|request| rule([(1, SeccompCmpOp::Eq, u64::from(request))]));
    let typing: io::Result<Vec<SeccompRule>> = typing.into_iter().collect();
    rules.insert(libc::SYS_ioctl, typing?);
    if sockets != Sockets::Usual {
        let kinds = SENDING_ANYWHERE.map(|kind| rule([(1, has(SOCKET_KIND), number(kind))]));
        let kinds: io::Result<Vec<SeccompRule>> = kinds.into_iter().collect();
        rules.insert(libc::SYS_socketpair, kinds?);
    }
    rules.insert(libc::SYS_socket, other_families(sockets)?);
    compile(rules, libc::EPERM)
}

/// Sockets of all families but those that can be made.
fn other_families(sockets: Sockets) -> io::Result<Vec<SeccompRule>> {
    let families: &[libc::c_int] = match sockets {
        Sockets::Usual => &[
            libc::AF_UNIX,
            libc::AF_INET,
            libc::AF_INET6,
            libc::AF_NETLINK,
        ],
        Sockets::NetworkOnly => &[libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK],
        Sockets::PairsOnly => &[],
    };
    // One rule of conditions that all hold: it is none of these.
    let others = families
        .iter()
        .map(|family| (0, SeccompCmpOp::Ne, number(*family)));
    let others: Vec<_> = others.collect();
    Ok(match others.is_empty() {
        true => Vec::new(),
        false => vec![rule(others)?],
    })
}

/// Modes that say as which user or group a program runs.
fn set_id() -> io::Result<BTreeMap<i64, Vec<SeccompRule>>> {
    let mut rules = BTreeMap::new();
    let bits = SET_ID.map(u64::from);
    for (call, mode) in SETTING_MODES {
        let with = bits.map(|bit| rule([(*mode, has(bit), bit)]));
        rules.insert(*call, with.into_iter().collect::<io::Result<_>>()?);
    }
    for (call, flags, mode) in OPENING {
        let pairs = MAKING.iter().flat_map(|making| {
            let making = number(*making);
            bits.map(|bit| rule([(*flags, has(making), making), (*mode, has(bit), bit)]))
        });
        rules.insert(*call, pairs.collect::<io::Result<_>>()?);
    }
    Ok(rules)
}

/// Compares these bits only.
fn has(bits: u64) -> SeccompCmpOp {
    SeccompCmpOp::MaskedEq(bits)
}

fn number(value: libc::c_int) -> u64 {
    u64::from(value.cast_unsigned())
}

fn unknown() -> io::Result<BpfProgram> {
    compile(always(UNKNOWN), libc::ENOSYS)
}

/// Refuses the second set of numbers that x86 has for the same calls.
fn other_numbers() -> BpfProgram {
    const LOAD_NUMBER: u16 = 0x20;
    const JUMP_IF_AT_LEAST: u16 = 0x35;
    const RETURN: u16 = 0x06;
    const X32: u32 = 0x4000_0000;
    let step = |code, k, jt| sock_filter { code, jt, jf: 0, k };
    let refusal = libc::SECCOMP_RET_ERRNO | libc::ENOSYS.cast_unsigned();
    vec![
        step(LOAD_NUMBER, 0, 0),
        step(JUMP_IF_AT_LEAST, X32, 1),
        step(RETURN, libc::SECCOMP_RET_ALLOW, 0),
        step(RETURN, refusal, 0),
    ]
}

fn always(numbers: &[libc::c_long]) -> BTreeMap<i64, Vec<SeccompRule>> {
    numbers.iter().map(|number| (*number, Vec::new())).collect()
}

fn rule(conditions: impl IntoIterator<Item = (u8, SeccompCmpOp, u64)>) -> io::Result<SeccompRule> {
    let conditions = conditions.into_iter().map(|(argument, operator, value)| {
        SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operator, value)
    });
    let conditions: Result<Vec<_>, _> = conditions.collect();
    SeccompRule::new(conditions.map_err(io::Error::other)?).map_err(io::Error::other)
}

fn compile(rules: BTreeMap<i64, Vec<SeccompRule>>, errno: libc::c_int) -> io::Result<BpfProgram> {
    let arch = std::env::consts::ARCH.try_into();
    let filter = SeccompFilter::new(
        rules,
        SeccompAction::Allow,
        SeccompAction::Errno(errno.cast_unsigned()),
        arch.map_err(io::Error::other)?,
    );
    let program: Result<BpfProgram, _> = filter.map_err(io::Error::other)?.try_into();
    program.map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::{Sockets, other_numbers, refused, unknown};

    #[test]
    fn every_filter_can_be_compiled() {
        for sockets in [Sockets::Usual, Sockets::NetworkOnly, Sockets::PairsOnly] {
            for is_alone in [false, true] {
                let length = refused(sockets, is_alone).unwrap().len();
                assert!(length > 60, "{sockets:?}");
            }
        }
        assert!(unknown().unwrap().len() > 4);
        assert_eq!(other_numbers().len(), 4);
    }
}
