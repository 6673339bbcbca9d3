//! A list of byte strings in two allocations, whatever its length.

use std::{fmt, ops::Index};

/// Byte strings one after the other. A vocabulary has hundreds of thousands of short strings, and
/// a file may claim tens of millions of empty ones: here each costs 8 bytes beside its own.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Strings {
    /// All strings without separators.
    bytes: Vec<u8>,
    /// Where each ends in `bytes`; it starts where the one before ends.
    ends: Vec<usize>,
}

impl Strings {
    /// No strings.
    pub fn new() -> Self {
        Self::default()
    }

    /// No strings, with room for `n` of them.
    pub fn with_capacity(n: usize) -> Self {
        Strings { bytes: Vec::new(), ends: Vec::with_capacity(n) }
    }

    /// The number of strings.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are no strings.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Adds a string at the end.
    pub fn push(&mut self, text: &[u8]) {
        self.bytes.extend_from_slice(text);
        self.ends.push(self.bytes.len());
    }

    /// The string at a place, counted from 0.
    pub fn get(&self, at: usize) -> Option<&[u8]> {
        let end = *self.ends.get(at)?;
        let start = at.checked_sub(1).map_or(0, |before| self.ends[before]);
        Some(&self.bytes[start..end])
    }

    /// The last string.
    pub fn last(&self) -> Option<&[u8]> {
        self.get(self.len().checked_sub(1)?)
    }

    /// The strings in order.
    pub fn iter(&self) -> Iter<'_> {
        Iter { bytes: &self.bytes, start: 0, ends: self.ends.iter() }
    }

    /// The strings in order, as bytes of their own.
    pub fn to_vecs(&self) -> Vec<Vec<u8>> {
        self.iter().map(<[u8]>::to_vec).collect()
    }

    /// Keeps the strings for which `keep` is true, asked in order.
    pub fn retain(&mut self, mut keep: impl FnMut(&[u8]) -> bool) {
        *self = self.iter().filter(|text| keep(text)).collect();
    }

    /// Bytes of all strings together.
    pub fn n_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Bytes of memory that the list holds.
    pub fn held_bytes(&self) -> usize {
        self.bytes.capacity() + self.ends.capacity() * size_of::<usize>()
    }
}

/// The strings of a [`Strings`] in order.
#[derive(Debug, Clone)]
pub struct Iter<'a> {
    bytes: &'a [u8],
    start: usize,
    ends: std::slice::Iter<'a, usize>,
}

impl<'a> Iterator for Iter<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let end = *self.ends.next()?;
        let text = &self.bytes[self.start..end];
        self.start = end;
        Some(text)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.ends.size_hint()
    }
}

impl ExactSizeIterator for Iter<'_> {}

/// The string at a place that there is.
impl Index<usize> for Strings {
    type Output = [u8];

    fn index(&self, at: usize) -> &[u8] {
        self.get(at).expect("the place is below the length")
    }
}

impl<'a> IntoIterator for &'a Strings {
    type Item = &'a [u8];
    type IntoIter = Iter<'a>;

    fn into_iter(self) -> Iter<'a> {
        self.iter()
    }
}

impl<T: AsRef<[u8]>> FromIterator<T> for Strings {
    fn from_iter<I: IntoIterator<Item = T>>(texts: I) -> Self {
        let texts = texts.into_iter();
        let mut strings = Strings::with_capacity(texts.size_hint().0);
        for text in texts {
            strings.push(text.as_ref());
        }
        strings
    }
}

impl<T: AsRef<[u8]>> From<Vec<T>> for Strings {
    fn from(texts: Vec<T>) -> Self {
        texts.into_iter().collect()
    }
}

impl fmt::Debug for Strings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_come_back_in_order() {
        let texts = ["", "a", "", "bc", ""];
        let strings: Strings = texts.iter().collect();
        assert_eq!(strings.len(), 5);
        assert!(strings.iter().eq(texts.iter().map(|text| text.as_bytes())));
        for (at, text) in texts.iter().enumerate() {
            assert_eq!(strings.get(at), Some(text.as_bytes()));
        }
        assert_eq!((strings.get(5), strings.last(), &strings[3]), (None, Some(&b""[..]), &b"bc"[..]));
        assert_eq!(strings.to_vecs(), texts.map(|text| text.as_bytes().to_vec()));
        // Where one string ends counts, not only the bytes of all.
        assert_ne!(strings, ["", "ab", "", "c", ""].iter().collect());
    }
}
