//! Parts of a work that is divided among machines.

use std::{fmt, ops::Range, str::FromStr};

/// Maximum number of parts: more than machines in practice, and few enough to iterate over.
const MAX_PARTS: u32 = 1 << 16;

/// Part `number` of `count`, from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct PartNumber {
    number: u32,
    count: u32,
}

impl PartNumber {
    /// Part `number` of `count`; `None` unless `1 <= number <= count <= 65536`.
    pub fn new(number: u32, count: u32) -> Option<PartNumber> {
        ((1..=count).contains(&number) && count <= MAX_PARTS).then_some(PartNumber { number, count })
    }

    /// Number of the part, from 1.
    pub fn number(self) -> u32 {
        self.number
    }

    /// Number of parts.
    pub fn count(self) -> u32 {
        self.count
    }

    /// Range of this part among `n` units. Parts are contiguous and differ by at most one unit; with fewer
    /// units than parts, some parts are empty.
    pub fn range(self, n: usize) -> Range<usize> {
        // The first k of N parts have floor(n k / N) units. The product may need more than 64 bits.
        let before = |parts: u32| (n as u128 * u128::from(parts) / u128::from(self.count)) as usize;
        before(self.number - 1)..before(self.number)
    }
}

impl fmt::Display for PartNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.number, self.count)
    }
}

/// The text is not a valid part number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected K/N with K from 1 to N and N at most 65536, for example 2/8")]
pub struct NotAPartNumber;

impl FromStr for PartNumber {
    type Err = NotAPartNumber;

    fn from_str(text: &str) -> Result<PartNumber, NotAPartNumber> {
        let (number, count) = text.split_once('/').ok_or(NotAPartNumber)?;
        let number_of = |text: &str| {
            if text.bytes().all(|byte| byte.is_ascii_digit()) {
                text.parse().map_err(|_| NotAPartNumber)
            } else {
                Err(NotAPartNumber)
            }
        };
        PartNumber::new(number_of(number)?, number_of(count)?).ok_or(NotAPartNumber)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_cover_all_items_once() {
        for n in [0, 1, 7, 64, usize::MAX] {
            for count in [1, 2, 3, 64] {
                let mut end = 0;
                for number in 1..=count {
                    let range = PartNumber::new(number, count).unwrap().range(n);
                    assert_eq!(range.start, end);
                    assert!(range.len().abs_diff(n / count as usize) <= 1, "{n} {number}/{count}");
                    end = range.end;
                }
                assert_eq!(end, n);
            }
        }
    }

    #[test]
    fn part_numbers_are_parsed() {
        assert_eq!("2/8".parse(), PartNumber::new(2, 8).ok_or(NotAPartNumber));
        assert_eq!("2/8".parse::<PartNumber>().unwrap().to_string(), "2/8");
        assert!("65536/65536".parse::<PartNumber>().is_ok());
        for text in ["", "2", "0/2", "3/2", "1/0", "+1/2", "1/-2", "1/2/3", "a/b", "1/65537", "1/4294967296"]
        {
            assert_eq!(text.parse::<PartNumber>(), Err(NotAPartNumber), "{text}");
        }
    }
}
