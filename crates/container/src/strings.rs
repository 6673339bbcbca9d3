//! A list of byte strings in two allocations, regardless of its length.

use std::{fmt, ops::Index, sync::Arc};

/// A list of byte strings in one buffer. A vocabulary has hundreds of thousands of short strings, and a file
/// may claim tens of millions of empty ones: each costs 4 bytes in addition to its own, and copies of a list
/// share the buffer until one is changed.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Strings {
    inner: Arc<Inner>,
}

#[derive(Clone, Default, PartialEq, Eq)]
struct Inner {
    /// All strings without separators.
    bytes: Vec<u8>,
    ends: Ends,
}

/// End of each string in the buffer; it starts at the previous end.
#[derive(Clone, PartialEq, Eq)]
enum Ends {
    /// All below 4 GiB.
    Near(Vec<u32>),
    /// Some are 4 GiB or more.
    Far(Vec<usize>),
}

impl Default for Ends {
    fn default() -> Self {
        Ends::Near(Vec::new())
    }
}

impl Ends {
    fn len(&self) -> usize {
        match self {
            Ends::Near(ends) => ends.len(),
            Ends::Far(ends) => ends.len(),
        }
    }

    fn get(&self, at: usize) -> Option<usize> {
        match self {
            Ends::Near(ends) => ends.get(at).map(|end| *end as usize),
            Ends::Far(ends) => ends.get(at).copied(),
        }
    }

    fn push(&mut self, end: usize) {
        match (&mut *self, u32::try_from(end)) {
            (Ends::Near(ends), Ok(near)) => ends.push(near),
            (Ends::Near(ends), Err(_)) => {
                *self = Ends::Far(ends.iter().map(|end| *end as usize).chain([end]).collect());
            }
            (Ends::Far(ends), _) => ends.push(end),
        }
    }

    fn held_bytes(&self) -> usize {
        match self {
            Ends::Near(ends) => ends.capacity() * size_of::<u32>(),
            Ends::Far(ends) => ends.capacity() * size_of::<usize>(),
        }
    }
}

impl Strings {
    /// An empty list.
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty list with room for `n` strings.
    pub fn with_capacity(n: usize) -> Self {
        let inner = Inner { bytes: Vec::new(), ends: Ends::Near(Vec::with_capacity(n)) };
        Strings { inner: Arc::new(inner) }
    }

    /// Number of strings.
    pub fn len(&self) -> usize {
        self.inner.ends.len()
    }

    /// True if there are no strings.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds a string at the end.
    pub fn push(&mut self, text: &[u8]) {
        let inner = Arc::make_mut(&mut self.inner);
        inner.bytes.extend_from_slice(text);
        inner.ends.push(inner.bytes.len());
    }

    /// String at an index.
    pub fn get(&self, at: usize) -> Option<&[u8]> {
        let Inner { bytes, ends } = &*self.inner;
        let end = ends.get(at)?;
        let start = at.checked_sub(1).and_then(|before| ends.get(before)).unwrap_or(0);
        Some(&bytes[start..end])
    }

    /// The last string.
    pub fn last(&self) -> Option<&[u8]> {
        self.get(self.len().checked_sub(1)?)
    }

    /// The strings in order.
    pub fn iter(&self) -> Iter<'_> {
        Iter { strings: self, at: 0 }
    }

    /// The strings in order, each as a separate vector.
    pub fn to_vecs(&self) -> Vec<Vec<u8>> {
        self.iter().map(<[u8]>::to_vec).collect()
    }

    /// Keeps the strings for which `keep` returns true, called in order.
    pub fn retain(&mut self, mut keep: impl FnMut(&[u8]) -> bool) {
        *self = self.iter().filter(|text| keep(text)).collect();
    }

    /// Bytes of all strings together.
    pub fn n_bytes(&self) -> usize {
        self.inner.bytes.len()
    }

    /// Memory of the list in bytes; copies share it.
    pub fn held_bytes(&self) -> usize {
        self.inner.bytes.capacity() + self.inner.ends.held_bytes()
    }
}

/// Iterator over the strings of a [`Strings`].
#[derive(Debug, Clone)]
pub struct Iter<'a> {
    strings: &'a Strings,
    at: usize,
}

impl<'a> Iterator for Iter<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let text = self.strings.get(self.at)?;
        self.at += 1;
        Some(text)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.strings.len() - self.at;
        (left, Some(left))
    }
}

impl ExactSizeIterator for Iter<'_> {}

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
    fn strings_keep_their_order() {
        let texts = ["", "a", "", "bc", ""];
        let strings: Strings = texts.iter().collect();
        assert_eq!(strings.len(), 5);
        assert!(strings.iter().eq(texts.iter().map(|text| text.as_bytes())));
        for (at, text) in texts.iter().enumerate() {
            assert_eq!(strings.get(at), Some(text.as_bytes()));
        }
        assert_eq!((strings.get(5), strings.last(), &strings[3]), (None, Some(&b""[..]), &b"bc"[..]));
        assert_eq!(strings.to_vecs(), texts.map(|text| text.as_bytes().to_vec()));
        // The ends of strings matter, not only their bytes.
        assert_ne!(strings, ["", "ab", "", "c", ""].iter().collect());
    }

    #[test]
    fn copies_share_bytes_until_changed() {
        let first: Strings = ["a", "b"].iter().collect();
        let mut second = first.clone();
        assert!(Arc::ptr_eq(&first.inner, &second.inner));
        second.push(b"c");
        assert_eq!((first.len(), second.len(), &second[1]), (2, 3, &b"b"[..]));
        // An empty string takes exactly four bytes.
        let empty: Strings = std::iter::repeat_n("", 1000).collect();
        assert_eq!(empty.held_bytes(), 4000);
    }

    #[test]
    fn offsets_beyond_four_gigabytes_are_kept() {
        let mut ends = Ends::default();
        let far = u32::MAX as usize + 1;
        for end in [1, far - 1, far, far + 7] {
            ends.push(end);
        }
        let all: Vec<_> = (0..5).map(|at| ends.get(at)).collect();
        assert_eq!(all, [Some(1), Some(far - 1), Some(far), Some(far + 7), None]);
        assert!(matches!(ends, Ends::Far(_)));
    }
}
