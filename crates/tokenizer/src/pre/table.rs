//! All pre-tokenizers that llama.cpp knows.

use super::expressions::*;
use super::row::PreTokenizer;
use super::row::Step::{DigitGroups, Expression, Lines};

const PLAIN: PreTokenizer = PreTokenizer {
    names: &[],
    llama_cpp: &[],
    model: None,
    shipped: &[],
    shipped_with_nfc: false,
    composed: false,
    ignore_merges: false,
    add_bos: false,
    always_bos: false,
    no_bos: false,
    raw: false,
    escape_whitespaces: false,
    space_first: false,
    whole_line_ends: false,
    keeps_case: false,
    is_code: false,
    optional_merges: false,
    separated: &[],
    mask_strips: &[],
};

/// All pre-tokenizers, in the order of the reference.
pub(super) const ROWS: &[PreTokenizer] = &[
    PreTokenizer {
        names: &["default"],
        llama_cpp: &[Expression(r"[\p{P}\$\+<=>\^~\|]+"), Expression(GPT2), DIGITS, ASCII_DIGITS3],
        ..PLAIN
    },
    PreTokenizer {
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
        shipped: &["minicpm5"],
        ..PLAIN
    },
    PreTokenizer {
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
        llama_cpp: &[NEAR_LLAMA3],
        model: Some(&[Expression(LLAMA3)]),
        ignore_merges: true,
        add_bos: true,
        shipped: &["llama-bpe", "llama3", "llama-v3", "falcon3", "midm-2.0", "lfm2"],
        ..PLAIN
    },
    PreTokenizer {
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
    PreTokenizer {
        names: &["deepseek-coder"],
        llama_cpp: &[
            Expression("[\r\n]"),
            Expression(r"\s?\p{L}+"),
            Expression(r"\s?\p{P}+"),
            CJK_AND_HANGUL,
            Expression(DIGIT),
        ],
        shipped: &["deepseek-coder"],
        ..PLAIN
    },
    PreTokenizer {
        names: &["deepseek-v3", "hunyuan-dense", "joyai-llm", "hy_v4"],
        llama_cpp: &[DIGITS3, CJK, DEEPSEEK3],
        shipped: &["deepseek-v3"],
        ..PLAIN
    },
    PreTokenizer {
        names: &["spark2_5"],
        llama_cpp: &[
            DIGITS3,
            CJK,
            Expression(deepseek3!(r"| ?[\p{P}\p{S}]+", r"|[\r\n]")),
            Expression(DIGIT),
        ],
        ..PLAIN
    },
    PreTokenizer {
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
    PreTokenizer {
        names: &["falcon"],
        llama_cpp: &[Expression(r"[\p{P}\$\+<=>\^~\|`]+"), Expression(GPT2), ASCII_DIGITS3],
        ..PLAIN
    },
    PreTokenizer {
        names: &["starcoder", "refact", "smollm", "codeshell", "exaone", "minerva-7b", "mellum2"],
        llama_cpp: &[Expression(DIGIT), Expression(GPT2)],
        shipped: &["smollm", "starcoder", "refact", "codeshell", "exaone"],
        ..PLAIN
    },
    PreTokenizer {
        names: &["command-r"],
        llama_cpp: &[Expression(DIGIT), Expression(GPT2)],
        composed: true,
        shipped: &["command-r"],
        shipped_with_nfc: true,
        ..PLAIN
    },
    PreTokenizer {
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
        llama_cpp: &[Expression(GPT2)],
        shipped: &["gpt-2", "phi-2", "gigachat", "mellum", "jais", "trillion"],
        separated: &["jina-v1-en", "jina-v2-code", "roberta-bpe"],
        mask_strips: &["jina-v2-es", "jina-v2-de", "jina-v2-code"],
        ..PLAIN
    },
    // The tokenizer of GPT-NeoX and similar models.
    PreTokenizer {
        names: &["mpt", "olmo"],
        llama_cpp: &[Expression(GPT2)],
        composed: true,
        shipped: &["mpt", "olmo"],
        ..PLAIN
    },
    PreTokenizer {
        names: &["jais-2"],
        llama_cpp: &[Expression(jais2!(contractions!()))],
        model: Some(&[Expression(jais2!(folded_contractions!()))]),
        shipped: &["jais-2"],
        ..PLAIN
    },
    PreTokenizer {
        names: &["gemma4", "granite-embed-multi-311m"],
        llama_cpp: &[Lines],
        raw: true,
        escape_whitespaces: true,
        always_bos: true,
        whole_line_ends: true,
        ..PLAIN
    },
    // Each space starts a word.
    PreTokenizer {
        names: &["mmbert"],
        llama_cpp: &[Lines, Expression("\u{2581}[^\u{2581}]*")],
        raw: true,
        escape_whitespaces: true,
        space_first: true,
        whole_line_ends: true,
        mask_strips: &["mmbert"],
        ..PLAIN
    },
    PreTokenizer {
        names: &["k2-horizon"],
        llama_cpp: &[Expression(concat!(
            folded_contractions!(),
            r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}\x{200C}\x{200D}]+|\p{N}{1,3}|",
            signs!(),
            "|",
            spaces!()
        ))],
        ..PLAIN
    },
    PreTokenizer {
        names: &["sarvam-moe"],
        llama_cpp: &[Lines],
        raw: true,
        escape_whitespaces: true,
        ..PLAIN
    },
    PreTokenizer {
        names: &["whitespace"],
        llama_cpp: &[Expression(r"\S+")],
        raw: true,
        keeps_case: true,
        ..PLAIN
    },
    PreTokenizer {
        names: &["qwen2", "deepseek-r1-qwen", "kormo", "f2llmv2", "megrez"],
        llama_cpp: &[NEAR_QWEN2],
        model: Some(&[Expression(QWEN2)]),
        composed: true,
        shipped: &["qwen2", "deepseek-r1-qwen"],
        shipped_with_nfc: true,
        ..PLAIN
    },
    PreTokenizer {
        names: &["stablelm2", "hunyuan", "solar-open", "grok-2"],
        llama_cpp: &[NEAR_QWEN2],
        model: Some(&[Expression(QWEN2)]),
        shipped: &["stablelm2"],
        shipped_with_nfc: true,
        ..PLAIN
    },
    PreTokenizer {
        names: &["qwen35"],
        llama_cpp: &[Expression(qwen35!(contractions!()))],
        model: Some(&[Expression(qwen35!(folded_contractions!()))]),
        composed: true,
        shipped: &["qwen35"],
        shipped_with_nfc: true,
        ..PLAIN
    },
    PreTokenizer {
        names: &["dbrx", "smaug-bpe"],
        llama_cpp: &[NEAR_LLAMA3],
        model: Some(&[Expression(LLAMA3)]),
        shipped: &["dbrx", "smaug-bpe"],
        ..PLAIN
    },
    PreTokenizer { names: &["poro-chat", "bloom", "gpt3-finnish"], llama_cpp: &[BLOOM], ..PLAIN },
    PreTokenizer {
        names: &["chatglm-bpe"],
        llama_cpp: &[NEAR_LLAMA3],
        model: Some(&[Expression(LLAMA3)]),
        no_bos: true,
        ..PLAIN
    },
    PreTokenizer {
        names: &["glm4", "glm5"],
        llama_cpp: &[NEAR_LLAMA3],
        model: Some(&[Expression(LLAMA3)]),
        no_bos: true,
        ignore_merges: true,
        ..PLAIN
    },
    PreTokenizer { names: &["viking"], llama_cpp: &[BLOOM, Expression(DIGIT)], ..PLAIN },
    PreTokenizer {
        names: &["tekken"],
        llama_cpp: &[Expression(near_cased!("", r"\p{N}"))],
        model: Some(&[Expression(stated_cased!("", r"\p{N}"))]),
        ignore_merges: true,
        add_bos: true,
        shipped: &["tekken"],
        ..PLAIN
    },
    PreTokenizer {
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
        shipped: &["exaone-moe"],
        ..PLAIN
    },
    PreTokenizer {
        names: &["chameleon"],
        llama_cpp: &[
            Expression("<sentinel:[0-9]+>"),
            Expression("(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z"),
            Expression(r"([\t\n]|    |  )"),
            Expression(DIGIT),
            Expression(r"[\p{P}!-/:-@\[-`{-~]"),
            Expression(GPT2),
        ],
        add_bos: true,
        ..PLAIN
    },
    PreTokenizer {
        names: &["gpt-4o", "llama4", "kanana2", "talkie", "minimax-m2"],
        llama_cpp: &[Expression(near_cased!(concat!(contractions!(), "?"), r"\p{N}{1,3}"))],
        model: Some(&[Expression(GPT4O)]),
        shipped: &["gpt-4o"],
        ..PLAIN
    },
    PreTokenizer {
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
    PreTokenizer {
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
    PreTokenizer {
        names: &["kimi-k2"],
        llama_cpp: &[KIMI_K2],
        model: Some(&[STATED_KIMI_K2]),
        is_code: true,
        optional_merges: true,
        ..PLAIN
    },
    PreTokenizer {
        names: &["superbpe"],
        llama_cpp: &[DIGITS, Expression("(?=([0-9]{3})+(?![0-9]))")],
        ..PLAIN
    },
    PreTokenizer {
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
        shipped: &["bailingmoe"],
        ..PLAIN
    },
    PreTokenizer {
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
        shipped: &["seed-coder"],
        ..PLAIN
    },
    PreTokenizer {
        names: &["ufakzeka"],
        llama_cpp: &[Expression(concat!(word!(), r"|\p{N}|", signs!(), "|", spaces!()))],
        shipped: &["ufakzeka"],
        ..PLAIN
    },
    PreTokenizer {
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
    PreTokenizer {
        names: &["laguna"],
        llama_cpp: &[Lines, NEAR_QWEN2],
        model: Some(&[Lines, Expression(QWEN2)]),
        ..PLAIN
    },
];
