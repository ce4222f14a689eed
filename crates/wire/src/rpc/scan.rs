//! One pass over a text before anything is built from it: how deep it nests, how much it holds.

use domain::limits::{JSON_DEPTH_MAX, JSON_VALUES_MAX};

use super::error::RpcError;

/// Refuses a text that nests too deep or holds too many values.
///
/// Counts brackets and commas outside strings and judges nothing else: for a text that is not
/// JSON the answer may be anything, and the parser refuses it afterwards.
///
/// # Errors
/// A parse error for the depth, a limit for the number.
pub fn check(text: &[u8]) -> Result<(), RpcError> {
    let mut depth = 0_usize;
    let mut values = 0_usize;
    let mut bytes = text.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => skip_string(&mut bytes),
            b'{' | b'[' => {
                depth += 1;
                values += 1;
                if depth > JSON_DEPTH_MAX {
                    return Err(RpcError::parse());
                }
            }
            b'}' | b']' => depth = depth.saturating_sub(1),
            b',' => values += 1,
            _ => {}
        }
    }
    if values > JSON_VALUES_MAX {
        return Err(RpcError::limit("json_values"));
    }
    Ok(())
}

/// Moves past the string whose opening quote was just read.
fn skip_string(bytes: &mut std::slice::Iter<'_, u8>) {
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => return,
            // Whatever is escaped, a quote too, does not end the string.
            b'\\' => {
                bytes.next();
            }
            _ => {}
        }
    }
}
