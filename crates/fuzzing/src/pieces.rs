//! Several files in one input: `\n=== NAME\n` begins each.

const MARK: &[u8] = b"\n=== ";

/// Files of an input by name. Bytes before the first marker are ignored.
pub(crate) fn split(bytes: &[u8]) -> Vec<(&str, &[u8])> {
    let mut pieces = Vec::new();
    let mut rest = after_mark(bytes).unwrap_or_default();
    while let Some(line) = rest.iter().position(|byte| *byte == b'\n') {
        let (name, content) = (&rest[..line], &rest[line + 1..]);
        let next = content.windows(MARK.len()).position(|window| window == MARK);
        let end = next.unwrap_or(content.len());
        if let Ok(name) = std::str::from_utf8(name) {
            pieces.push((name, &content[..end]));
        }
        rest = next.map_or(&[][..], |at| &content[at + MARK.len()..]);
    }
    pieces
}

fn after_mark(bytes: &[u8]) -> Option<&[u8]> {
    let at = bytes.windows(MARK.len()).position(|window| window == MARK)?;
    Some(&bytes[at + MARK.len()..])
}

pub(crate) fn join<'a>(pieces: impl IntoIterator<Item = (&'a str, &'a [u8])>) -> Vec<u8> {
    let piece = |(name, bytes): (&str, &[u8])| [MARK, name.as_bytes(), b"\n", bytes].concat();
    pieces.into_iter().flat_map(piece).collect()
}

pub(crate) fn of<'a>(pieces: &[(&str, &'a [u8])], name: &str) -> Option<&'a [u8]> {
    pieces.iter().find(|(other, _)| *other == name).map(|(_, bytes)| *bytes)
}

/// Copy of a file in an input of several files.
pub fn piece(input: &[u8], name: &str) -> Option<Vec<u8>> {
    of(&split(input), name).map(<[u8]>::to_vec)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn joined_pieces_split_again() {
        let files: [(&str, &[u8]); 3] = [("a.json", b"{}\n"), ("b", b""), ("c", b"\n==\xff")];
        assert_eq!(split(&join(files)), files);
        assert_eq!(of(&split(&join(files)), "c"), Some(&b"\n==\xff"[..]));
        for bad in [&b""[..], b"\n=== ", b"\n=== x", b"x\n=== \xff\nabc"] {
            assert!(split(bad).is_empty());
        }
    }
}
