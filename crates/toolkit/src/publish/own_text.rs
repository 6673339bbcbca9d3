//! The publisher's own text in the card: everything between two comments is kept when the card is written again.

/// The line before the text.
const BEGIN: &str = "<!-- your text: kept when the card is written again -->";
/// The line after it.
const END: &str = "<!-- end of your text -->";

/// The section with this text.
pub fn section(text: &str) -> String {
    format!("\n{BEGIN}\n{text}{END}\n")
}

/// The text in a card; empty without a section.
pub fn of(card: &str) -> &str {
    place(card).map_or("", |(start, end)| &card[start..end])
}

/// The card with an empty section.
pub fn without(card: &str) -> String {
    match place(card) {
        Some((start, end)) => format!("{}{}", &card[..start], &card[end..]),
        None => card.to_owned(),
    }
}

/// Start and end of the text, if both comments have a line each.
fn place(card: &str) -> Option<(usize, usize)> {
    let mut at = 0;
    let mut start = None;
    for line in card.split_inclusive('\n') {
        match (start, line.trim_end()) {
            (None, BEGIN) => start = Some(at + line.len()),
            (Some(start), END) => return Some((start, at)),
            _ => {}
        }
        at += line.len();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_between_comments_is_kept() {
        let card = format!("# A\n{}\n## Files\n", section(""));
        assert_eq!((of(&card), without(&card)), ("", card.clone()));
        let edited = format!("# A\n{}\n## Files\n", section("## My tests\n\nGood.\n"));
        assert_eq!((of(&edited), without(&edited)), ("## My tests\n\nGood.\n", card));
        // Without its end there is no section.
        for text in ["# A\n".to_owned(), edited.replace(END, ""), edited.replace(BEGIN, "")] {
            assert_eq!((of(&text), without(&text)), ("", text.clone()));
        }
    }
}
