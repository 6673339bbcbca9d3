//! The pre-tokenizer that each value of `tokenizer.ggml.pre` names.
//!
//! Every row has the steps that llama.cpp takes. Where those only approximate what the models' own
//! tokenizer.json does, because its engine has no sub-categories and no Unicode case folding,
//! the row has the models' own steps as well: they are what the model was trained with, and what
//! a conversion is checked against.
//!
//! Source: `llm_tokenizer_bpe` and `llama_vocab::impl::load` in `src/llama-vocab.cpp` and the
//! splits in `src/unicode.cpp` of llama.cpp, as vendored in llama-cpp-python 0.3.36. Its
//! categories are whole letters: `\p{Lu}` there is `\p{L}` here. A letter that is not lower-case
//! ASCII, which it writes as a look-ahead, is a class here.

use super::Reading;

/// One step of splitting a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// Before and after every match.
    Expression(&'static str),
    /// Between line ends and everything else.
    Lines,
    /// Numbers in groups of three from the right, as llama.cpp's loop does it.
    DigitGroups,
}

use Step::{DigitGroups, Expression, Lines};

/// A pre-tokenizer.
#[derive(Debug)]
pub(super) struct Pre {
    /// Its names.
    pub names: &'static [&'static str],
    llama_cpp: &'static [Step],
    model: Option<&'static [Step]>,
    /// True if the models' tokenizer.json composes characters (NFC) first. llama.cpp does not.
    pub composed: bool,
    /// True if a word that is a token is taken whole.
    pub ignore_merges: bool,
    /// True if BOS is added by default.
    pub add_bos: bool,
    /// True if BOS is not added by default.
    pub no_bos: bool,
    /// True if tokens are raw text instead of bytes written as printable characters.
    pub raw: bool,
    /// True if spaces become U+2581.
    pub escape_whitespaces: bool,
}

impl Pre {
    /// The steps of a reading.
    pub(super) fn steps(&self, reading: Reading) -> &'static [Step] {
        match (reading, self.model) {
            (Reading::Model, Some(steps)) => steps,
            _ => self.llama_cpp,
        }
    }
}

/// Names that converters write for WordPiece, where llama.cpp reads none (`get_vocab_base_pre` in `conversion/base.py`).
const OF_WORD_PIECE: [&str; 3] = ["bert-bge", "bert-bge-large", "jina-v2-en"];

/// True if converters write this name.
pub(super) fn is_known(name: &str) -> bool {
    by_name(name).is_some() || OF_WORD_PIECE.contains(&name)
}

/// The row of a name.
pub(super) fn by_name(name: &str) -> Option<&'static Pre> {
    PRE.iter().find(|pre| pre.names.contains(&name))
}

/// Every name.
#[cfg(test)]
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    PRE.iter().flat_map(|pre| pre.names.iter().copied())
}

const PLAIN: Pre = Pre {
    names: &[],
    llama_cpp: &[],
    model: None,
    composed: false,
    ignore_merges: false,
    add_bos: false,
    no_bos: false,
    raw: false,
    escape_whitespaces: false,
};

/// English contractions in either case, in ASCII.
macro_rules! contractions {
    () => {
        "(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])"
    };
}
/// The same under Unicode case folding, as models state it: `ſ` matches s.
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
/// Runs of characters that are neither letters nor values, with a space before them and line ends after them.
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
/// Words that change at a capital: upper and lower are the classes of letters that may stand in
/// either half.
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
/// Upper and lower case letters, as models state them.
macro_rules! stated_cased {
    ($end:expr, $numbers:literal) => {
        cased!(r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]", $end, $numbers)
    };
}
/// Upper and lower case letters, as llama.cpp approximates them: ASCII only.
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

const GPT2: Step = Expression(r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+");
const LLAMA3: Step = Expression(llama3!(contractions!()));
const STATED_LLAMA3: Step = Expression(llama3!(folded_contractions!()));
const QWEN2: Step = Expression(qwen2!(contractions!()));
const STATED_QWEN2: Step = Expression(qwen2!(folded_contractions!()));
const DIGIT: Step = Expression(r"\p{N}");
const DIGITS: Step = Expression(r"\p{N}+");
const DIGITS3: Step = Expression(r"\p{N}{1,3}");
const ASCII_DIGITS3: Step = Expression("[0-9][0-9][0-9]");
const CJK: Step = Expression("[一-龥\u{3040}-ゟ゠-ヿ]+");
const CJK_AND_HANGUL: Step = Expression("[一-龥ࠀ-一가-\u{d7ff}]+");
const DEEPSEEK3: Step = Expression(deepseek3!(r"| ?[\p{P}\p{S}]+[\r\n]*", r"|\s*[\r\n]+"));
/// Letters that have a case, as DeepSeek lists them.
const CASED_LETTERS: Step = Expression(concat!(
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
const BLOOM: Step = Expression(r" ?[^(\s|.,!?…。，、।۔،)]+");

/// llama.cpp's function for Kimi K2, which has no marks in words and no cases; Han as it lists it.
const KIMI_K2: Step = Expression(concat!(
    r"[\u4e00-\u9fff\u3400-\u4dbf\U00020000-\U0002a6df\U0002a700-\U0002ebef\uf900-\ufaff\U0002f800-\U0002fa1f]+",
    r"|[^\r\n\p{L}\p{N}]?[\p{L}&&[^\u4e00-\u9fff\u3400-\u4dbf\U00020000-\U0002a6df\U0002a700-\U0002ebef",
    r"\uf900-\ufaff\U0002f800-\U0002fa1f]]+",
    contractions!(),
    r"?|\p{N}{1,3}|",
    signs!(),
    "|",
    spaces!()
));
const STATED_KIMI_K2: Step = Expression(concat!(
    r"[\p{Han}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+",
    folded_contractions!(),
    r"?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*",
    folded_contractions!(),
    r"?|\p{N}{1,3}|",
    signs!(),
    "|",
    spaces!()
));

/// All pre-tokenizers, in the order of the reference.
const PRE: &[Pre] = &[
    Pre {
        names: &["default"],
        llama_cpp: &[Expression(r"[\p{P}\$\+<=>\^~\|]+"), GPT2, DIGITS, ASCII_DIGITS3],
        ..PLAIN
    },
    Pre {
        names: &["minicpm5"],
        llama_cpp: &[
            DIGITS3,
            Expression(concat!(contractions!(), "|", word!(), r"|\p{N}+|", signs!(), "|", spaces!())),
        ],
        model: Some(&[
            DIGITS3,
            Expression(concat!(folded_contractions!(), "|", word!(), r"|\p{N}+|", signs!(), "|", spaces!())),
        ]),
        ignore_merges: true,
        ..PLAIN
    },
    Pre {
        names: &[
            "llama3",
            "llama-v3",
            "llama-bpe",
            "falcon3",
            "falcon-h1",
            "pixtral",
            "midm-2.0",
            "lfm2",
            "jina-v5-nano",
        ],
        llama_cpp: &[LLAMA3],
        model: Some(&[STATED_LLAMA3]),
        ignore_merges: true,
        add_bos: true,
        ..PLAIN
    },
    Pre {
        names: &["deepseek-llm"],
        llama_cpp: &[
            Expression(r"[\r\n]"),
            CASED_LETTERS,
            Expression("\\s?[!-/:-~！-／：-～‘-‟\u{3000}-。]+"),
            Expression(r"\s+$"),
            CJK_AND_HANGUL,
            DIGITS,
        ],
        ..PLAIN
    },
    Pre {
        names: &["deepseek-coder"],
        llama_cpp: &[
            Expression(r"[\r\n]"),
            Expression(r"\s?\p{L}+"),
            Expression(r"\s?\p{P}+"),
            CJK_AND_HANGUL,
            DIGIT,
        ],
        ..PLAIN
    },
    Pre {
        names: &["deepseek-v3", "hunyuan-dense", "joyai-llm", "hy_v4"],
        llama_cpp: &[DIGITS3, CJK, DEEPSEEK3],
        ..PLAIN
    },
    Pre {
        names: &["spark2_5"],
        llama_cpp: &[DIGITS3, CJK, Expression(deepseek3!(r"| ?[\p{P}\p{S}]+", r"|[\r\n]")), DIGIT],
        ..PLAIN
    },
    Pre {
        names: &["youtu"],
        llama_cpp: &[
            Expression("[가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+|[一-龥\u{3040}-ゟ゠-ヿ]+"),
            Expression(cased!(r"[\p{L}\p{M}]", r"[\p{L}\p{M}]", concat!(contractions!(), "?"), r"\p{N}")),
        ],
        model: Some(&[
            Expression("[가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+|[一-龥\u{3040}-ゟ゠-ヿ]+"),
            Expression(stated_cased!(concat!(folded_contractions!(), "?"), r"\p{N}")),
        ]),
        ignore_merges: true,
        ..PLAIN
    },
    Pre {
        names: &["falcon"],
        llama_cpp: &[Expression(r"[\p{P}\$\+<=>\^~\|`]+"), GPT2, ASCII_DIGITS3],
        ..PLAIN
    },
    Pre {
        names: &["starcoder", "refact", "smollm", "codeshell", "exaone", "minerva-7b", "mellum2"],
        llama_cpp: &[DIGIT, GPT2],
        ..PLAIN
    },
    Pre { names: &["command-r"], llama_cpp: &[DIGIT, GPT2], composed: true, ..PLAIN },
    Pre {
        names: &[
            "gpt-2",
            "phi-2",
            "jina-es",
            "jina-de",
            "gigachat",
            "jina-v2-es",
            "jina-v2-de",
            "a.x-4.0",
            "mellum",
            "modern-bert",
            "jina-v1-en",
            "jina-v2-code",
            "roberta-bpe",
            "jais",
            "trillion",
            "granite-docling",
            "exaone4",
        ],
        llama_cpp: &[GPT2],
        ..PLAIN
    },
    // The tokenizer of GPT-NeoX and similar models.
    Pre { names: &["mpt", "olmo"], llama_cpp: &[GPT2], composed: true, ..PLAIN },
    Pre {
        names: &["jais-2"],
        llama_cpp: &[Expression(jais2!(contractions!()))],
        model: Some(&[Expression(jais2!(folded_contractions!()))]),
        ..PLAIN
    },
    Pre {
        names: &["gemma4", "granite-embed-multi-311m"],
        llama_cpp: &[Lines],
        raw: true,
        escape_whitespaces: true,
        add_bos: true,
        ..PLAIN
    },
    Pre { names: &["sarvam-moe"], llama_cpp: &[Lines], raw: true, escape_whitespaces: true, ..PLAIN },
    Pre { names: &["whitespace"], llama_cpp: &[Expression(r"\S+")], raw: true, ..PLAIN },
    Pre {
        names: &["qwen2", "deepseek-r1-qwen", "kormo", "f2llmv2", "megrez"],
        llama_cpp: &[QWEN2],
        model: Some(&[STATED_QWEN2]),
        composed: true,
        ..PLAIN
    },
    Pre {
        names: &["stablelm2", "hunyuan", "solar-open", "grok-2"],
        llama_cpp: &[QWEN2],
        model: Some(&[STATED_QWEN2]),
        ..PLAIN
    },
    Pre {
        names: &["qwen35"],
        llama_cpp: &[Expression(qwen35!(contractions!()))],
        model: Some(&[Expression(qwen35!(folded_contractions!()))]),
        composed: true,
        ..PLAIN
    },
    Pre { names: &["dbrx", "smaug-bpe"], llama_cpp: &[LLAMA3], model: Some(&[STATED_LLAMA3]), ..PLAIN },
    Pre { names: &["poro-chat", "bloom", "gpt3-finnish"], llama_cpp: &[BLOOM], ..PLAIN },
    Pre {
        names: &["chatglm-bpe"],
        llama_cpp: &[LLAMA3],
        model: Some(&[STATED_LLAMA3]),
        no_bos: true,
        ..PLAIN
    },
    Pre {
        names: &["glm4", "glm5"],
        llama_cpp: &[LLAMA3],
        model: Some(&[STATED_LLAMA3]),
        no_bos: true,
        ignore_merges: true,
        ..PLAIN
    },
    Pre { names: &["viking"], llama_cpp: &[BLOOM, DIGIT], ..PLAIN },
    Pre {
        names: &["tekken"],
        llama_cpp: &[Expression(near_cased!("", r"\p{N}"))],
        model: Some(&[Expression(stated_cased!("", r"\p{N}"))]),
        ignore_merges: true,
        add_bos: true,
        ..PLAIN
    },
    Pre {
        names: &["exaone-moe"],
        llama_cpp: &[Expression(concat!(
            contractions!(),
            r"|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]",
            r"|\s+(?!\S)|\s+"
        ))],
        model: Some(&[Expression(concat!(
            folded_contractions!(),
            r"|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]",
            r"|\s+(?!\S)|\s+"
        ))]),
        ..PLAIN
    },
    Pre {
        names: &["chameleon"],
        llama_cpp: &[
            Expression("<sentinel:[0-9]+>"),
            Expression("(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z"),
            Expression(r"([\t\n]|    |  )"),
            DIGIT,
            Expression(r"[\p{P}!-/:-@\[-`{-~]"),
            GPT2,
        ],
        add_bos: true,
        ..PLAIN
    },
    Pre {
        names: &["gpt-4o", "llama4", "kanana2", "talkie", "minimax-m2"],
        llama_cpp: &[Expression(near_cased!(concat!(contractions!(), "?"), r"\p{N}{1,3}"))],
        model: Some(&[Expression(stated_cased!(concat!(folded_contractions!(), "?"), r"\p{N}{1,3}"))]),
        ..PLAIN
    },
    Pre {
        names: &["granite-embed-multi-97m"],
        llama_cpp: &[Expression(cased!(
            r"[\p{L}\p{M}&&[^a-z]]",
            r"[\p{L}\p{M}&&[^A-Z]]",
            concat!(contractions!(), "?"),
            r"\p{N}{1,3}"
        ))],
        model: Some(&[Expression(stated_cased!(concat!(folded_contractions!(), "?"), r"\p{N}{1,3}"))]),
        ignore_merges: true,
        ..PLAIN
    },
    Pre {
        names: &["tiny_aya", "cohere2moe"],
        llama_cpp: &[
            DigitGroups,
            Expression(cased!(
                r"[\p{L}\p{M}]",
                r"[\p{L}\p{M}]",
                concat!(contractions!(), "?"),
                r"\p{N}{1,3}"
            )),
        ],
        model: Some(&[
            Expression(r"\d{1,3}(?=(?:\d{3})*\b)"),
            Expression(stated_cased!(concat!(folded_contractions!(), "?"), r"\p{N}{1,3}")),
        ]),
        ..PLAIN
    },
    Pre { names: &["kimi-k2"], llama_cpp: &[KIMI_K2], model: Some(&[STATED_KIMI_K2]), ..PLAIN },
    Pre { names: &["superbpe"], llama_cpp: &[DIGITS, Expression("(?=([0-9]{3})+(?![0-9]))")], ..PLAIN },
    Pre {
        names: &["bailingmoe", "bailingmoe2", "llada-moe"],
        llama_cpp: &[Expression(concat!(
            "'(?:[sSdDmMtT]|[lL][lL]|[vV][eE]|[rR][eE])|",
            word!(),
            r"|\p{N}|",
            signs!(),
            r"|\s*[\r\n]|\s+(?!\S)|\s+"
        ))],
        model: Some(&[Expression(
            r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+",
        )]),
        ..PLAIN
    },
    Pre {
        names: &["seed-coder"],
        llama_cpp: &[Expression(concat!(
            contractions!(),
            "|",
            word!(),
            r"|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|",
            spaces!()
        ))],
        model: Some(&[Expression(concat!(
            folded_contractions!(),
            "|",
            word!(),
            r"|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|",
            spaces!()
        ))]),
        ..PLAIN
    },
    Pre {
        names: &["ufakzeka"],
        llama_cpp: &[Expression(concat!(word!(), r"|\p{N}|", signs!(), "|", spaces!()))],
        ..PLAIN
    },
    Pre {
        names: &["afmoe"],
        llama_cpp: &[
            DigitGroups,
            Expression(
                "[一-鿿㐀-䶿豈-\u{faff}\u{3040}-ゟ゠-ヿ･-ﾟ⼀-\u{2fdf}เ-\u{e7f}\u{e80}-\u{eff}ក-\u{17ff}က-႟ꩠ-ꩿꧠ-\u{a9ff}가-\u{d7af}ᄀ-ᇿ]+",
            ),
            DEEPSEEK3,
        ],
        ..PLAIN
    },
    Pre { names: &["laguna"], llama_cpp: &[Lines, QWEN2], model: Some(&[Lines, STATED_QWEN2]), ..PLAIN },
];

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::super::split::Splitter;
    use super::*;

    /// The list of names that the converter has is read from the reference's source.
    #[test]
    fn every_pre_tokenizer_name_has_one_row() {
        let listed = include_str!("../huggingface/pre/names.txt");
        let listed: HashSet<&str> = listed.lines().filter(|line| !line.starts_with('#')).collect();
        assert_eq!(names().count(), listed.len());
        assert_eq!(names().collect::<HashSet<_>>(), listed);
    }

    #[test]
    fn every_expression_compiles() {
        for pre in PRE {
            for reading in [Reading::LlamaCpp, Reading::Model] {
                assert!(Splitter::new(pre.steps(reading)).is_ok(), "{:?} {reading:?}", pre.names);
            }
        }
    }
}
