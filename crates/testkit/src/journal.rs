//! A journal as a stranger reads it: by the documented format alone, without our own code.

use std::path::Path;

use serde_json::Value;

/// Reads `events.jsonl` and checks that every line is one JSON object with the right checksum and
/// the next number.
///
/// # Errors
/// A sentence that says which line is wrong, and how.
pub fn read_strictly(path: &Path) -> Result<Vec<Value>, String> {
    let bytes =
        std::fs::read(path).map_err(|error| format!("{} is gone: {error}", path.display()))?;
    let Some(lines) = bytes.strip_suffix(b"\n") else {
        return Err(format!("{} does not end with a newline", path.display()));
    };
    let mut events = Vec::new();
    for (index, line) in lines.split(|byte| *byte == b'\n').enumerate() {
        let number = index as u64 + 1;
        let event = check_line(line, number)
            .map_err(|problem| format!("line {number} of {}: {problem}", path.display()))?;
        events.push(event);
    }
    Ok(events)
}

fn check_line(line: &[u8], number: u64) -> Result<Value, String> {
    let event: Value =
        serde_json::from_slice(line).map_err(|error| format!("not JSON: {error}"))?;
    if event["seq"] != number {
        return Err(format!("seq is {}", event["seq"]));
    }
    let at = line.windows(8).rposition(|bytes| bytes == b",\"crc\":\"");
    let Some(at) = at else {
        return Err("there is no checksum".to_owned());
    };
    let wanted = format!("{:08x}", crc32c(&line[..at]));
    match event["crc"].as_str() {
        Some(crc) if crc == wanted => Ok(event),
        other => Err(format!("the checksum is {other:?}, not {wanted}")),
    }
}

/// CRC-32C bit by bit, from its definition.
fn crc32c(bytes: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            let carry = crc & 1;
            crc = (crc >> 1) ^ (0x82F6_3B78 * carry);
        }
    }
    !crc
}

#[cfg(test)]
mod tests {
    use super::{check_line, crc32c};

    #[test]
    fn the_checksum_is_the_one_everybody_means() {
        // The check value of CRC-32/ISCSI.
        assert_eq!(crc32c(b"123456789"), 0xE306_9283);
    }

    #[test]
    fn a_line_needs_its_number_and_its_checksum() {
        let body = r#"{"seq":1,"ts":1.0,"type":"x""#;
        let line = format!("{body},\"crc\":\"{:08x}\"}}", crc32c(body.as_bytes()));
        assert!(check_line(line.as_bytes(), 1).is_ok());
        assert!(check_line(line.as_bytes(), 2).is_err());
        let flipped = line.replace("1.0", "2.0");
        assert!(
            check_line(flipped.as_bytes(), 1)
                .unwrap_err()
                .contains("checksum")
        );
    }
}
