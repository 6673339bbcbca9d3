//! The alphabet of byte-level vocabularies: a printable character for each byte. Printable characters of
//! Latin-1 represent themselves; the other 68 bytes are characters from U+0100 on.
//!
//! Source: `bytes_to_unicode` of GPT-2; `unicode_byte_to_utf8_map` in `src/unicode.cpp` of llama.cpp.

use std::sync::OnceLock;

pub(crate) fn char_of(byte: u8) -> char {
    let moved = |offset: u32| char::from_u32(0x100 + offset).unwrap_or(char::REPLACEMENT_CHARACTER);
    match byte {
        b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff => char::from(byte),
        // In order: 33 up to the space, 34 from DEL to the no-break space, and the soft hyphen last.
        0..=0x20 => moved(byte.into()),
        0x7f..=0xa0 => moved(u32::from(byte) - 0x7f + 33),
        0xad => moved(67),
    }
}

pub(crate) fn byte_of(c: char) -> Option<u8> {
    static TABLE: OnceLock<Vec<Option<u8>>> = OnceLock::new();
    let table = TABLE.get_or_init(|| {
        let mut table = vec![None; 256 + 68];
        for byte in 0..=u8::MAX {
            table[char_of(byte) as usize] = Some(byte);
        }
        table
    });
    table.get(c as usize).copied().flatten()
}

pub(crate) fn text_of(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| char_of(*byte)).collect()
}

/// Bytes represented by a text; `None` if it has a character outside this alphabet.
pub(crate) fn bytes_of(text: &str) -> Option<Vec<u8>> {
    text.chars().map(byte_of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_map_to_characters_and_back() {
        let all: Vec<u8> = (0..=u8::MAX).collect();
        let text = text_of(&all);
        assert_eq!(text.chars().collect::<std::collections::HashSet<char>>().len(), 256);
        assert_eq!(bytes_of(&text), Some(all));
        assert_eq!([b' ', b'\n', 0x7f, 0xa0, 0xad].map(char_of), ['Ġ', 'Ċ', 'ġ', 'ł', 'Ń']);
        assert_eq!((byte_of('漢'), byte_of(' '), bytes_of("\u{4e00}")), (None, None, None));
    }
}
