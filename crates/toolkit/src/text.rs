//! Readable sizes and times, and escaped names from untrusted files.

use std::{path::Path, time::Duration};

use serde::Serialize;

use crate::error::Error;

/// The text with control and invisible characters escaped; names in files are not trusted.
pub fn printable(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            c if c.is_control() => shown.extend(c.escape_debug()),
            c if is_invisible(c) => shown.extend(c.escape_unicode()),
            c => shown.push(c),
        }
    }
    shown
}

/// The text as [`printable`] shows it, cut after `n_chars` characters.
pub fn shortened(text: &str, n_chars: usize) -> String {
    let text = printable(text);
    match text.char_indices().nth(n_chars) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}

/// Name of a file without its folder.
pub fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

/// True for characters without a shape, and for those that change the direction of text.
pub fn is_invisible(character: char) -> bool {
    matches!(character, '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{180e}'
        | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}'
        | '\u{feff}' | '\u{ffa0}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
}

/// Indented JSON, with a line end.
///
/// # Errors
/// A value that cannot be serialized.
pub fn pretty_json(value: &impl Serialize) -> Result<String, Error> {
    Ok(serde_json::to_string_pretty(value).map_err(Error::new)? + "\n")
}

/// A readable time: `12 s`, `3 min 20 s`, `2 h 5 min`, `3 days`.
pub fn human_duration(time: Duration) -> String {
    let seconds = time.as_secs();
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match () {
        () if minutes == 0 => format!("{seconds} s"),
        () if hours == 0 => format!("{minutes} min {} s", seconds % 60),
        () if days < 2 => format!("{hours} h {} min", minutes % 60),
        () => format!("{days} days"),
    }
}

/// A readable size: `857 kB`, `4.2 GB`. Units are powers of 1000.
pub fn human_bytes(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["B", "kB", "MB", "GB", "TB", "PB"];
    let mut size = bytes as f64;
    let mut unit = 0;
    // Values that would print as 1000 belong to the next unit.
    while size >= 999.5 && unit + 1 < UNITS.len() {
        size /= 1000.0;
        unit += 1;
    }
    let digits = if unit == 0 || size >= 99.95 {
        0
    } else if size >= 9.995 {
        1
    } else {
        2
    };
    format!("{size:.digits$} {}", UNITS[unit])
}

/// Digits in groups of three.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_printed_with_units() {
        for (bytes, text) in [
            (0, "0 B"),
            (999, "999 B"),
            (1000, "1.00 kB"),
            (857_376, "857 kB"),
            (999_600, "1.00 MB"),
            (4_234_000_000, "4.23 GB"),
            (12_340_000, "12.3 MB"),
            (u64::MAX, "18447 PB"),
        ] {
            assert_eq!(human_bytes(bytes), text);
        }
    }

    #[test]
    fn durations_are_printed_with_units() {
        for (seconds, text) in
            [(0, "0 s"), (59, "59 s"), (200, "3 min 20 s"), (7500, "2 h 5 min"), (260_000, "3 days")]
        {
            assert_eq!(human_duration(Duration::from_secs(seconds)), text);
        }
    }

    #[test]
    fn control_characters_in_names_are_escaped() {
        assert_eq!(printable("a\u{1b}[2Jb\nc ä"), "a\\u{1b}[2Jb\\nc ä");
        assert_eq!(printable("a\u{202e}b"), "a\\u{202e}b");
    }
}
