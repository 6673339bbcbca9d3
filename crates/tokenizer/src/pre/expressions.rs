//! Expressions by which tokenizers split text: those of the models' tokenizer.json, and llama.cpp's
//! approximations.
//!
//! llama.cpp does not distinguish subcategories: `\p{Lu}` there is `\p{L}` here. A letter that is not
//! lower-case ASCII, which it writes as a look-ahead, is a class here.
//!
//! Source: `llm_tokenizer_bpe` in `src/llama-vocab.cpp`, whose comments keep the models' own expressions.

use super::row::Step::{self, Expression};

/// English contractions in either case, in ASCII.
macro_rules! contractions {
    () => {
        "(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])"
    };
}
/// Contractions under Unicode case folding, as stated by models: `ſ` matches s.
macro_rules! folded_contractions {
    () => {
        "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
    };
}
/// The end of most expressions: line ends; spaces before a word, except the last one; other spaces.
macro_rules! spaces {
    () => {
        r"\s*[\r\n]+|\s+(?!\S)|\s+"
    };
}
/// A word with at most one character before it.
macro_rules! word {
    () => {
        r"[^\r\n\p{L}\p{N}]?\p{L}+"
    };
}
/// Runs of characters that are neither letters nor numbers, with an optional space before and line ends after
/// them.
macro_rules! signs {
    () => {
        r" ?[^\s\p{L}\p{N}]+[\r\n]*"
    };
}
macro_rules! llama3 {
    ($contractions:expr) => {
        concat!($contractions, "|", word!(), r"|\p{N}{1,3}|", signs!(), "|", spaces!())
    };
}
macro_rules! qwen2 {
    ($contractions:expr) => {
        concat!($contractions, "|", word!(), r"|\p{N}|", signs!(), "|", spaces!())
    };
}
macro_rules! qwen35 {
    ($contractions:expr) => {
        concat!(
            $contractions,
            r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|",
            spaces!()
        )
    };
}
macro_rules! jais2 {
    ($contractions:expr) => {
        concat!(
            $contractions,
            "|",
            word!(),
            r"|\p{N}{1,3}|",
            signs!(),
            r"|\s*[\r\n]+|\s{512}(?!\S)|\s{256}(?!\S)|\s{128}(?!\S)|\s{64}(?!\S)|\s{32}(?!\S)|\s{16}(?!\S)",
            r"|\s{8}(?!\S)|\s{4}(?!\S)|\s{1,2}(?!\S)|\s{1}"
        )
    };
}
/// Words that end at a capital: upper and lower are the classes of letters in either half.
macro_rules! cased {
    ($upper:literal, $lower:literal, $end:expr, $numbers:literal) => {
        concat!(
            r"[^\r\n\p{L}\p{N}]?",
            $upper,
            "*",
            $lower,
            "+",
            $end,
            r"|[^\r\n\p{L}\p{N}]?",
            $upper,
            "+",
            $lower,
            "*",
            $end,
            "|",
            $numbers,
            r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|",
            spaces!()
        )
    };
}
/// Upper and lower case letters, as stated by models.
macro_rules! stated_cased {
    ($end:expr, $numbers:literal) => {
        cased!(r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]", $end, $numbers)
    };
}
/// Upper and lower case letters, approximated by llama.cpp: ASCII only.
macro_rules! near_cased {
    ($end:expr, $numbers:literal) => {
        cased!(r"[\p{L}&&[^a-z]]", r"[\p{L}&&[^A-Z]]", $end, $numbers)
    };
}
macro_rules! deepseek3 {
    ($signs:literal, $ends:literal) => {
        concat!(
            r##"[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"##,
            $signs,
            $ends,
            r"|\s+(?!\S)|\s+"
        )
    };
}

/// Default expression of byte-level BPE in the tokenizers library.
pub const GPT2: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";
pub(super) const NEAR_LLAMA3: Step = Expression(llama3!(contractions!()));
/// Llama 3.
pub const LLAMA3: &str = llama3!(folded_contractions!());
pub(super) const NEAR_QWEN2: Step = Expression(qwen2!(contractions!()));
/// Qwen 2: digits one by one.
pub const QWEN2: &str = qwen2!(folded_contractions!());
/// GPT-4o: words end at a capital.
pub const GPT4O: &str = stated_cased!(concat!(folded_contractions!(), "?"), r"\p{N}{1,3}");
pub const DIGIT: &str = r"\p{N}";
pub(super) const DIGITS: Step = Expression(r"\p{N}+");
pub(super) const DIGITS3: Step = Expression(r"\p{N}{1,3}");
pub(super) const ASCII_DIGITS3: Step = Expression("[0-9][0-9][0-9]");
pub(super) const CJK: Step = Expression("[一-龥\u{3040}-ゟ゠-ヿ]+");
pub(super) const CJK_AND_HANGUL: Step = Expression("[一-龥ࠀ-一가-\u{d7ff}]+");
pub(super) const DEEPSEEK3: Step = Expression(deepseek3!(r"| ?[\p{P}\p{S}]+[\r\n]*", r"|\s*[\r\n]+"));
/// Letters that have a case, as listed by DeepSeek.
pub(super) const CASED_LETTERS: Step = Expression(concat!(
    r"\s?",
    r"[A-Za-z\x{b5}\x{c0}-\x{d6}\x{d8}-\x{f6}\x{f8}-\x{1ba}\x{1bc}-\x{1bf}\x{1c4}-\x{293}",
    r"\x{295}-\x{2af}\x{370}-\x{373}\x{376}\x{377}\x{37b}-\x{37d}\x{37f}\x{386}\x{388}-\x{38a}",
    r"\x{38c}\x{38e}-\x{3a1}\x{3a3}-\x{3f5}\x{3f7}-\x{481}\x{48a}-\x{52f}\x{531}-\x{556}",
    r"\x{10a0}-\x{10c5}\x{13a0}-\x{13f5}\x{13f8}-\x{13fd}\x{1c90}-\x{1cba}\x{1cbd}-\x{1cbf}",
    r"\x{1d00}-\x{1d2b}\x{1d6b}-\x{1d77}\x{1d79}-\x{1d9a}\x{1e00}-\x{1f15}\x{1f18}-\x{1f1d}",
    r"\x{1f20}-\x{1f45}\x{1f48}-\x{1f4d}\x{1f50}-\x{1f57}\x{1f59}\x{1f5b}\x{1f5d}",
    r"\x{1f5f}-\x{1f7d}\x{1f80}-\x{1fb4}\x{1fb6}-\x{1fbc}\x{1fbe}\x{1fc2}-\x{1fc4}",
    r"\x{1fc6}-\x{1fcc}\x{1fd0}-\x{1fd3}\x{1fd6}-\x{1fdb}\x{1fe0}-\x{1fec}\x{1ff2}-\x{1ff4}",
    r"\x{1ff6}-\x{1ffc}\x{2102}\x{2107}\x{210a}-\x{2113}\x{2115}\x{2119}-\x{211d}\x{2124}",
    r"\x{2126}\x{2128}\x{212a}-\x{212d}\x{212f}-\x{2134}\x{2139}\x{213c}-\x{213f}",
    r"\x{2145}-\x{2149}\x{214e}\x{2183}\x{2184}\x{2c00}-\x{2c7b}\x{2c7e}-\x{2ce4}",
    r"\x{2ceb}-\x{2cee}\x{2cf2}\x{2cf3}\x{a640}-\x{a66d}\x{a680}-\x{a69b}\x{a722}-\x{a76f}",
    r"\x{a771}-\x{a787}\x{a78b}-\x{a78e}\x{ab70}-\x{abbf}\x{fb00}-\x{fb06}\x{fb13}-\x{fb17}",
    r"\x{ff21}-\x{ff3a}\x{ff41}-\x{ff5a}\x{10400}-\x{1044f}\x{104b0}-\x{104d3}",
    r"\x{104d8}-\x{104fb}\x{10c80}-\x{10cb2}\x{10cc0}-\x{10cf2}\x{118a0}-\x{118df}",
    r"\x{1e900}-\x{1e943}]+",
));
pub(super) const BLOOM: Step = Expression(r" ?[^(\s|.,!?…。，、।۔،)]+");

/// llama.cpp's function for Kimi K2, without marks in words and without cases; Han as in its list.
pub(super) const KIMI_K2: Step = Expression(concat!(
    r"[\u4e00-\u9fff\u3400-\u4dbf\U00020000-\U0002a6df\U0002a700-\U0002ebef\uf900-\ufaff\U0002f800-\U0002fa1f]+",
    r"|[^\r\n\p{L}\p{N}]?[\p{L}&&[^\u4e00-\u9fff\u3400-\u4dbf\U00020000-\U0002a6df\U0002a700-\U0002ebef",
    r"\uf900-\ufaff\U0002f800-\U0002fa1f]]+",
    contractions!(),
    r"?|\p{N}{1,3}|",
    signs!(),
    "|",
    spaces!()
));
pub(super) const STATED_KIMI_K2: Step = Expression(concat!(
    r"[\p{Han}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+",
    folded_contractions!(),
    r"?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*",
    folded_contractions!(),
    r"?|\p{N}{1,3}|",
    signs!(),
    "|",
    spaces!()
));
