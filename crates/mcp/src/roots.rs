//! The session's directories, as servers ask for them.

use std::fmt::Write as _;
use std::path::Path;

use tools::roots::Roots;

/// Their addresses.
pub(crate) fn addresses(roots: &Roots) -> Vec<String> {
    roots.directories().map(address).collect()
}

/// `file:` and the path, with everything written out that an address may not hold.
fn address(path: &Path) -> String {
    let mut address = "file://".to_owned();
    for byte in path.as_os_str().as_encoded_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'-' | b'_' | b'.' | b'~' => {
                address.push(char::from(*byte));
            }
            // Writing to a string does not fail.
            other => drop(write!(address, "%{other:02X}")),
        }
    }
    address
}

#[cfg(test)]
mod tests {
    use tools::roots::Roots;

    use super::addresses;

    #[test]
    fn a_directory_is_told_as_an_address() {
        let roots = Roots::new("/a b/ä".into(), vec!["/c".into()], Vec::new());
        assert_eq!(addresses(&roots), ["file:///a%20b/%C3%A4", "file:///c"]);
    }
}
