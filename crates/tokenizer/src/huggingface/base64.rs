//! Base64 of RFC 4648, with or without padding, used in tiktoken files, tekken.json and compiled normalizer
//! tables.

use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use base64::{Engine as _, alphabet};

const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Decodes; `None` if a character is not in the alphabet or bits are left over.
pub(super) fn decode(text: &[u8]) -> Option<Vec<u8>> {
    BASE64.decode(text).ok()
}

pub(crate) fn encode(bytes: &[u8]) -> String {
    BASE64.encode(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_of_rfc_4648() {
        for (text, bytes) in [
            ("", ""),
            ("Zg==", "f"),
            ("Zm8=", "fo"),
            ("Zm9v", "foo"),
            ("Zm9vYg==", "foob"),
            ("Zm9vYmE=", "fooba"),
            ("Zm9vYmFy", "foobar"),
            ("Zg", "f"),
        ] {
            assert_eq!(decode(text.as_bytes()).as_deref(), Some(bytes.as_bytes()), "{text}");
            assert!(encode(bytes.as_bytes()).starts_with(text), "{text}");
        }
        for bad in ["Z", "Zh==", "Zm9v!", "Zm 9", "Zg===", "===="] {
            assert_eq!(decode(bad.as_bytes()), None, "{bad}");
        }
        assert_eq!(decode(b"+/+/").as_deref(), Some(&[0xfb, 0xff, 0xbf][..]));
    }
}
