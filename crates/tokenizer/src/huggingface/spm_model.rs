//! Reads the part of a SentencePiece model that a conversion needs.
//!
//! The file is one protocol buffer message. Five wire types and a dozen fields do not need a generated
//! reader. Unknown fields are skipped, and every length is checked against the remaining bytes before
//! allocating.
//!
//! Source: `sentencepiece_model.proto` of SentencePiece 0.2: `ModelProto`, `TrainerSpec`,
//! `NormalizerSpec`.

use crate::token_type::TokenType;

#[derive(Debug, PartialEq)]
pub(super) struct SpmModel<'a> {
    pub pieces: Vec<Piece<'a>>,
    pub kind: SpmModelType,
    /// True if a space is prepended to a text.
    pub add_dummy_prefix: bool,
    /// True if runs of spaces are collapsed.
    pub remove_extra_whitespaces: bool,
    pub unk_id: u32,
    /// Id of the token that begins a text.
    pub bos_id: u32,
    /// Id of the token that ends a text.
    pub eos_id: u32,
    /// Id of the padding token; `u32::MAX` if absent.
    pub pad_id: u32,
    /// Compiled table of character replacements; may be empty.
    pub charsmap: &'a [u8],
}

#[derive(Debug, PartialEq)]
pub(super) struct Piece<'a> {
    pub text: &'a str,
    pub score: f32,
    pub kind: TokenType,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SpmModelType {
    /// 1, the default.
    Unigram,
    /// 2
    Bpe,
    /// 3
    Word,
    /// 4
    Char,
}

impl SpmModelType {
    pub(super) fn name(self) -> &'static str {
        match self {
            SpmModelType::Unigram => "unigram",
            SpmModelType::Bpe => "bpe",
            SpmModelType::Word => "word",
            SpmModelType::Char => "char",
        }
    }
}

impl<'a> SpmModel<'a> {
    /// Reads a model.
    pub(super) fn read(bytes: &'a [u8]) -> Result<Self, String> {
        let mut model = SpmModel {
            pieces: Vec::new(),
            kind: SpmModelType::Unigram,
            add_dummy_prefix: true,
            remove_extra_whitespaces: true,
            unk_id: 0,
            bos_id: 1,
            eos_id: 2,
            pad_id: u32::MAX,
            charsmap: &[],
        };
        let not_one = |problem: String| format!("not a SentencePiece model: {problem}");
        // `ModelProto`: 1 a piece (repeated), 2 the trainer's settings, 3 the normalizer's. Missing values
        // have the defaults of the schema, as above.
        for field in Fields::of(bytes) {
            match field.map_err(not_one)? {
                (1, Field::Bytes(piece)) => {
                    let id = model.pieces.len();
                    model
                        .pieces
                        .push(Piece::read(piece).map_err(|problem| format!("piece {id}: {problem}"))?);
                }
                (2, Field::Bytes(spec)) => model.read_trainer(spec).map_err(not_one)?,
                (3, Field::Bytes(spec)) => model.read_normalizer(spec).map_err(not_one)?,
                (1..=3, _) => return Err(not_one("wrong wire type".into())),
                _ => {}
            }
        }
        if model.pieces.is_empty() {
            return Err(not_one("missing pieces".into()));
        }
        Ok(model)
    }

    fn read_trainer(&mut self, spec: &[u8]) -> Result<(), String> {
        for field in Fields::of(spec) {
            // Ids are signed; a negative one (no token) becomes a large number.
            let id = |value: u64| value as u32;
            // `TrainerSpec`: 3 model_type, 40 to 43 unk_id, bos_id, eos_id, pad_id.
            match field? {
                (3, Field::Varint(kind)) => {
                    self.kind = match kind {
                        1 => SpmModelType::Unigram,
                        2 => SpmModelType::Bpe,
                        3 => SpmModelType::Word,
                        4 => SpmModelType::Char,
                        _ => return Err(format!("model type {kind} is unknown")),
                    }
                }
                (40, Field::Varint(value)) => self.unk_id = id(value),
                (41, Field::Varint(value)) => self.bos_id = id(value),
                (42, Field::Varint(value)) => self.eos_id = id(value),
                (43, Field::Varint(value)) => self.pad_id = id(value),
                _ => {}
            }
        }
        Ok(())
    }

    fn read_normalizer(&mut self, spec: &'a [u8]) -> Result<(), String> {
        for field in Fields::of(spec) {
            // `NormalizerSpec`: 2 precompiled_charsmap, 3 add_dummy_prefix, 4 remove_extra_whitespaces.
            match field? {
                (2, Field::Bytes(map)) => self.charsmap = map,
                (3, Field::Varint(on)) => self.add_dummy_prefix = on != 0,
                (4, Field::Varint(on)) => self.remove_extra_whitespaces = on != 0,
                _ => {}
            }
        }
        Ok(())
    }
}

impl<'a> Piece<'a> {
    fn read(bytes: &'a [u8]) -> Result<Self, String> {
        let mut piece = Piece { text: "", score: 0.0, kind: TokenType::Normal };
        for field in Fields::of(bytes) {
            // `SentencePiece`: 1 piece, 2 score (float), 3 type.
            match field? {
                (1, Field::Bytes(text)) => {
                    piece.text = std::str::from_utf8(text).map_err(|error| error.to_string())?;
                }
                (2, Field::Fixed32(bits)) => piece.score = f32::from_bits(bits),
                (3, Field::Varint(kind)) => {
                    let known = i32::try_from(kind).ok().and_then(TokenType::from_id);
                    piece.kind = known.ok_or_else(|| format!("type {kind} is unknown"))?;
                }
                (1..=3, _) => return Err("a field has the wrong wire type".into()),
                _ => {}
            }
        }
        if piece.text.is_empty() {
            return Err("missing text".into());
        }
        if piece.score.is_nan() {
            return Err(format!("the score of `{}` is not a number", piece.text));
        }
        Ok(piece)
    }
}

/// A field's value by wire type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Field<'a> {
    Varint(u64),
    Fixed64,
    Bytes(&'a [u8]),
    Fixed32(u32),
}

/// Fields of a message in file order; ends after the first error.
struct Fields<'a> {
    rest: &'a [u8],
    failed: bool,
}

impl<'a> Fields<'a> {
    fn of(bytes: &'a [u8]) -> Self {
        Fields { rest: bytes, failed: false }
    }

    /// A base-128 number: seven bits per byte, lowest first; the highest bit is set if more follow.
    fn varint(&mut self) -> Result<u64, String> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let (&byte, rest) = self.rest.split_first().ok_or("unexpected end inside a number")?;
            self.rest = rest;
            let bits = u64::from(byte & 0x7f);
            // The tenth byte has room for one bit of the 64.
            if shift == 63 && bits > 1 {
                break;
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err("a number is longer than 64 bits".into())
    }

    fn take(&mut self, len: u64) -> Result<&'a [u8], String> {
        let left = self.rest.len();
        let (taken, rest) = usize::try_from(len)
            .ok()
            .and_then(|len| self.rest.split_at_checked(len))
            .ok_or_else(|| format!("expected a field of {len} bytes, found {left}"))?;
        self.rest = rest;
        Ok(taken)
    }

    /// A field: a varint of its number and its wire type, `number << 3 | type`, then the value, whose length
    /// follows from the wire type: 0 varint, 1 eight bytes, 2 a length and that number of bytes, 5 four
    /// bytes. 3 and 4 began and ended groups, which no model has.
    fn field(&mut self) -> Result<(u64, Field<'a>), String> {
        let tag = self.varint()?;
        let value = match tag & 7 {
            0 => Field::Varint(self.varint()?),
            1 => self.take(8).map(|_| Field::Fixed64)?,
            2 => {
                let len = self.varint()?;
                Field::Bytes(self.take(len)?)
            }
            5 => {
                let bytes = self.take(4)?;
                Field::Fixed32(u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
            }
            other => return Err(format!("wire type {other} is unknown")),
        };
        match tag >> 3 {
            0 => Err("field number 0".into()),
            number => Ok((number, value)),
        }
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u64, Field<'a>), String>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() || self.failed {
            return None;
        }
        let field = self.field();
        self.failed = field.is_err();
        Some(field)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(text: &str, score: f32, kind: u8) -> Vec<u8> {
        let mut inner = vec![0x0a, text.len() as u8];
        inner.extend(text.as_bytes());
        inner.push(0x15);
        inner.extend(score.to_le_bytes());
        inner.extend([0x18, kind]);
        let mut outer = vec![0x0a, inner.len() as u8];
        outer.extend(inner);
        outer
    }

    #[test]
    fn pieces_and_flags() {
        let mut bytes = piece("<unk>", 0.0, 2);
        bytes.extend(piece("ab", -1.5, 1));
        bytes.extend([0x12, 2, 0x18, 2]); // trainer: model type bpe
        bytes.extend([0x1a, 2, 0x18, 0]); // normalizer: no dummy prefix
        bytes.extend([0xf8, 0x07, 0x96, 0x01]); // unknown field 127
        let model = SpmModel::read(&bytes).unwrap();
        assert_eq!(model.kind, SpmModelType::Bpe);
        assert!(!model.add_dummy_prefix && model.remove_extra_whitespaces && model.charsmap.is_empty());
        assert_eq!(model.pieces[1], Piece { text: "ab", score: -1.5, kind: TokenType::Normal });
        assert_eq!(model.pieces[0].kind, TokenType::Unknown);
    }

    #[test]
    fn truncated_or_flipped_model_does_not_panic() {
        let mut bytes = piece("<unk>", 0.0, 2);
        bytes.extend(piece("ab", -1.5, 1));
        let whole = piece("<unk>", 0.0, 2).len();
        for end in 0..bytes.len() {
            assert_eq!(SpmModel::read(&bytes[..end]).is_ok(), end == whole, "cut at {end}");
        }
        for at in 0..bytes.len() * 8 {
            bytes[at / 8] ^= 1 << (at % 8);
            let _ = SpmModel::read(&bytes);
            bytes[at / 8] ^= 1 << (at % 8);
        }
    }

    #[test]
    fn invalid_model_is_named() {
        for (bytes, expected) in [
            (&b"version https://git-lfs.github.com/spec/v1\n"[..], "not a SentencePiece model"),
            (b"IQ== 0\nIg== 1\n", "not a SentencePiece model"),
            (b"", "missing pieces"),
            (&piece("ab", 0.0, 9), "piece 0: type 9 is unknown"),
            (&piece("ab", f32::NAN, 1), "piece 0: the score of `ab` is not a number"),
            (&piece("", 0.0, 1), "piece 0: missing text"),
            (&[0x0a, 0xff, 0xff, 0xff, 0xff, 0x7f], "not a SentencePiece model: expected a field of"),
            (&[0xff; 12], "longer than 64 bits"),
        ] {
            let problem = SpmModel::read(bytes).unwrap_err();
            assert!(problem.contains(expected), "{problem} lacks {expected}");
        }
    }
}
