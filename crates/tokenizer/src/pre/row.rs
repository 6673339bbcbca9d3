//! Types of a row in the table of pre-tokenizers.

/// One step of splitting a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// Before and after every match.
    Expression(&'static str),
    /// Between line ends and everything else.
    Lines,
    /// Numbers in groups of three from the right, as llama.cpp's loop does it.
    DigitGroups,
}

/// A pre-tokenizer.
#[derive(Debug)]
pub(crate) struct PreTokenizer {
    /// Its names.
    pub names: &'static [&'static str],
    /// The steps of llama.cpp.
    pub llama_cpp: &'static [Step],
    /// The steps of the models' own tokenizer.json, if they differ.
    pub model: Option<&'static [Step]>,
    /// Names whose models are known to ship a tokenizer.json with these steps. It is recognized by them and exported with
    /// them; for other names, an export has the expressions of llama.cpp.
    pub shipped: &'static [&'static str],
    /// True if the shipped tokenizer.json normalizes texts to NFC first.
    pub shipped_with_nfc: bool,
    /// True if the models' tokenizer.json composes characters (NFC) first. llama.cpp does not.
    pub composed: bool,
    /// True if a word that is a token is taken whole.
    pub ignore_merges: bool,
    /// True if BOS is added by default.
    pub add_bos: bool,
    /// True if BOS is added even if the file states that it is not.
    pub always_bos: bool,
    /// True if BOS is not added by default.
    pub no_bos: bool,
    /// True if tokens are raw text instead of bytes written as printable characters.
    pub raw: bool,
    /// True if spaces become U+2581.
    pub escape_whitespaces: bool,
    /// True if line ends that are a token are taken whole.
    pub whole_line_ends: bool,
    /// True if letters keep their case in a vocabulary of words.
    pub keeps_case: bool,
    /// True if llama.cpp splits by code, for which it has no expression.
    pub is_code: bool,
    /// True if files may have no merges.
    pub optional_merges: bool,
    /// Names that add a separator between two texts by default.
    pub separated: &'static [&'static str],
    /// Names whose `<mask>` absorbs the whitespace on its left.
    pub mask_strips: &'static [&'static str],
}

impl PreTokenizer {
    /// The steps of the models.
    pub(crate) fn steps_of_models(&self) -> &'static [Step] {
        self.model.unwrap_or(self.llama_cpp)
    }

    /// The models' expressions, for a row that has nothing else.
    pub(crate) fn expressions(&self) -> impl Iterator<Item = &'static str> {
        self.steps_of_models().iter().filter_map(|step| match step {
            Step::Expression(expression) => Some(*expression),
            Step::Lines | Step::DigitGroups => None,
        })
    }
}
