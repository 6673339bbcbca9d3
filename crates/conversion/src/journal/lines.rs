//! Lines with checksums; the last may be truncated.

use serde_json::Value;
use twox_hash::XxHash3_64;

pub(super) fn line(value: &Value) -> String {
    let text = value.to_string();
    format!("{:016x} {text}\n", XxHash3_64::oneshot(text.as_bytes()))
}

/// The lines of a journal up to the first invalid one, and their number of bytes.
pub(super) fn parse(bytes: &[u8]) -> (Vec<Value>, u64) {
    let (mut values, mut n_bytes) = (Vec::new(), 0);
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        let Some(value) = parse_line(line) else { break };
        values.push(value);
        n_bytes += line.len() as u64;
    }
    (values, n_bytes)
}

fn parse_line(line: &[u8]) -> Option<Value> {
    let line = std::str::from_utf8(line.strip_suffix(b"\n")?).ok()?;
    let (sum, text) = line.split_once(' ')?;
    let sum = u64::from_str_radix(sum, 16).ok().filter(|_| sum.len() == 16)?;
    (sum == XxHash3_64::oneshot(text.as_bytes())).then(|| serde_json::from_str(text).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reading_stops_at_first_invalid_line() {
        let text = [line(&Value::from(1)), line(&Value::from("two")), line(&Value::from(3))].concat();
        assert!(text.lines().next().is_some_and(|first| first.len() == 18 && first.ends_with(" 1")));
        let all = parse(text.as_bytes());
        assert_eq!(all, (vec![1.into(), "two".into(), 3.into()], text.len() as u64));
        // Complete lines survive truncation anywhere.
        for end in 0..text.len() {
            let (values, n_bytes) = parse(&text.as_bytes()[..end]);
            assert_eq!(values.len(), text[..end].matches('\n').count(), "{end}");
            assert!(text[..n_bytes as usize].ends_with('\n') || n_bytes == 0);
        }
        // A flipped byte ends the journal.
        for at in 0..text.len() {
            let mut bytes = text.clone().into_bytes();
            bytes[at] ^= 1;
            let (values, _) = parse(&bytes);
            assert_eq!(values.len(), text[..at].matches('\n').count(), "{at}");
        }
        assert_eq!(parse(b"0000000000000000 \n\n"), (vec![], 0));
    }
}
