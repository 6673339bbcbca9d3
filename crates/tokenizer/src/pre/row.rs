//! Types of a row in the table of pre-tokenizers.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// Splits before and after every match.
    Expression(&'static str),
    /// Splits line ends from everything else.
    Lines,
    /// Splits numbers into groups of three from the right, like llama.cpp's loop.
    DigitGroups,
}

#[derive(Debug)]
pub(crate) struct PreTokenizer {
    pub names: &'static [&'static str],
    pub llama_cpp: &'static [Step],
    /// The steps of the models' own tokenizer.json, if they differ.
    pub model: Option<&'static [Step]>,
    /// Names whose models ship a tokenizer.json with these steps. They are recognized by the steps and
    /// exported with them; for other names, an export has llama.cpp's expressions.
    pub shipped: &'static [&'static str],
    /// True if the shipped tokenizer.json normalizes texts to NFC first.
    pub shipped_with_nfc: bool,
    /// True if the models' tokenizer.json composes characters (NFC) first. llama.cpp does not.
    pub composed: bool,
    /// True if a word that is a token is not split.
    pub ignore_merges: bool,
    /// True if BOS is added by default.
    pub add_bos: bool,
    /// True if BOS is added even if the file states otherwise.
    pub always_bos: bool,
    /// True if BOS is not added by default.
    pub no_bos: bool,
    /// True if tokens are raw text instead of bytes in the byte alphabet.
    pub raw: bool,
    /// True if spaces become U+2581.
    pub escape_whitespaces: bool,
    /// True if every line that does not start with a space gets one.
    pub space_first: bool,
    /// True if line ends that are a token are not split.
    pub whole_line_ends: bool,
    /// True if letters keep their case in a vocabulary of words.
    pub keeps_case: bool,
    /// True if llama.cpp splits by code instead of an expression.
    pub is_code: bool,
    /// True if files may have no merges.
    pub optional_merges: bool,
    /// Names that add a separator between two texts by default.
    pub separated: &'static [&'static str],
    /// Names whose `<mask>` absorbs the whitespace on its left.
    pub mask_strips: &'static [&'static str],
}

impl PreTokenizer {
    pub(crate) fn steps_of_models(&self) -> &'static [Step] {
        self.model.unwrap_or(self.llama_cpp)
    }

    /// The models' expressions, for a row that consists only of expressions.
    pub(crate) fn expressions(&self) -> impl Iterator<Item = &'static str> {
        self.steps_of_models().iter().filter_map(|step| match step {
            Step::Expression(expression) => Some(*expression),
            Step::Lines | Step::DigitGroups => None,
        })
    }
}
