//! Text that arrives in pieces, in lines that end between words.

/// Breaks lines of a terminal between words.
#[derive(Debug)]
pub struct WordWrap {
    /// Columns of the terminal; `None` leaves the text as it is.
    width: Option<usize>,
    column: usize,
    /// The word that has begun, and its columns.
    word: String,
    word_columns: usize,
}

impl WordWrap {
    /// Text for a terminal of `width` columns.
    pub fn new(width: Option<usize>) -> WordWrap {
        WordWrap { width, column: 0, word: String::new(), word_columns: 0 }
    }

    /// Adds text, and returns what can be printed: complete words.
    pub fn push(&mut self, text: &str) -> String {
        let Some(width) = self.width else { return text.to_owned() };
        let mut out = String::new();
        for character in text.chars() {
            match character {
                '\n' => {
                    self.end_word(width, &mut out);
                    out.push('\n');
                    self.column = 0;
                }
                ' ' | '\t' => {
                    self.end_word(width, &mut out);
                    // A space after the last column would be on the next line.
                    if self.column < width {
                        out.push(character);
                        self.column += if character == '\t' { 8 - self.column % 8 } else { 1 };
                    }
                }
                // Chinese, Japanese and others have no spaces, and a character takes two columns.
                '\u{2e80}'.. => {
                    self.end_word(width, &mut out);
                    self.word.push(character);
                    self.word_columns = 2;
                    self.end_word(width, &mut out);
                }
                _ => {
                    self.word.push(character);
                    self.word_columns += 1;
                    // A word of more than a line is broken by the terminal.
                    if self.word_columns == width {
                        self.end_word(width, &mut out);
                    }
                }
            }
        }
        out
    }

    /// The rest of the text.
    pub fn finish(&mut self) -> String {
        let mut out = String::new();
        if let Some(width) = self.width {
            self.end_word(width, &mut out);
        }
        out
    }

    fn end_word(&mut self, width: usize, out: &mut String) {
        if self.column > 0 && self.column + self.word_columns > width {
            out.push('\n');
            self.column = 0;
        }
        out.push_str(&self.word);
        self.column += self.word_columns;
        self.word.clear();
        self.word_columns = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_between_words() {
        for (width, pieces, expected) in [
            (Some(8), &["one tw", "o three\n  four", " five"][..], "one two \nthree\n  four \nfive"),
            (Some(4), &["abcdefgh i"], "abcd\nefgh\ni"),
            (Some(4), &["日本", "語"], "日本\n語"),
            (None, &["one two three"], "one two three"),
        ] {
            let mut wrap = WordWrap::new(width);
            let text: String = pieces.iter().map(|piece| wrap.push(piece)).collect();
            assert_eq!(text + &wrap.finish(), expected);
        }
    }
}
