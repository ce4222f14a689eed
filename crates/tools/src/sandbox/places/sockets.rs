//! Sockets with a path: a file system that cannot be written does not keep anyone from using them.

use std::io::Read as _;
use std::path::PathBuf;

/// Bytes of the kernel's list that are read: some forty thousand sockets.
const LIST_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// Every socket that somebody on this machine has put at a path. Blocks.
pub(super) fn listening() -> Vec<PathBuf> {
    let mut list = Vec::new();
    // Where there is no list, there is nothing to tell.
    let _ = std::fs::File::open("/proc/net/unix")
        .and_then(|file| file.take(LIST_BYTES_MAX).read_to_end(&mut list));
    parse(&String::from_utf8_lossy(&list))
}

fn parse(list: &str) -> Vec<PathBuf> {
    let lines = list.lines().skip(1);
    let paths = lines.filter_map(|line| Some(PathBuf::from(&line[line.find(" /")? + 1..])));
    let mut paths: Vec<PathBuf> = paths.collect();
    paths.sort();
    paths.dedup();
    paths
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn sockets_with_a_path_are_told_from_those_without() {
        let list = "Num       RefCount Protocol Flags    Type St Inode Path\n\
                    0000000000000000: 00000002 00000000 00010000 0001 01 17 /run/a b.sock\n\
                    0000000000000000: 00000003 00000000 00000000 0001 03 18\n\
                    0000000000000000: 00000002 00000000 00010000 0001 01 19 @abstract\n\
                    0000000000000000: 00000003 00000000 00000000 0001 03 20 /run/a b.sock\n";
        let found: Vec<String> = parse(list)
            .iter()
            .map(|path| path.display().to_string())
            .collect();
        assert_eq!(found, ["/run/a b.sock"]);
    }
}
