//! The older binary format.
//!
//! ```text
//! i32 n_entries                              >= 1
//! n_entries times:
//!   i32 name_bytes, name                     ends early at a zero byte
//!   i32 n_calls                              factor of the weights
//!   i32 n_values                             >= 1
//!   f32 values[n_values]                     mean square times n_calls
//! optionally: i32 n_chunks
//! optionally: i32 dataset_bytes, dataset
//! ```
//!
//! Little-endian throughout. Source: `common_imatrix_load_legacy` in `common/imatrix-loader.cpp`
//! and `IMatrixCollector::save_imatrix_legacy` in `tools/imatrix/imatrix.cpp`.

use std::collections::BTreeMap;

use super::{Entry, Error, Format, Sums};

/// Reads a file of the older format.
pub(super) fn parse(bytes: &[u8]) -> Result<Sums, Error> {
    let mut cursor = Cursor { bytes, at: 0 };
    let n_entries = cursor.count("the number of entries", 1)?;
    let mut entries = BTreeMap::new();
    for index in 0..n_entries {
        let name = cursor.text("a name")?;
        let name = String::from_utf8(name)
            .map_err(|error| Error::NameNotUtf8 { index, bytes: error.into_bytes() })?;
        let n_calls = cursor.number("a number of calls")?;
        let n_values = cursor.count("the number of values", 1)?;
        let values = cursor.take(n_values as u64 * 4, "values")?;
        let sums = values.as_chunks::<4>().0.iter().map(|value| f32::from_le_bytes(*value)).collect();
        // A later entry replaces an earlier one of the same name.
        entries.insert(name, Entry { sums, counts: vec![n_calls.into()] });
    }
    let (mut n_chunks, mut datasets) = (0, vec![]);
    if cursor.left() > 0 {
        n_chunks = cursor.number("the number of chunks")?.into();
    }
    if cursor.left() > 0 {
        let dataset = cursor.text("the name of the dataset")?;
        if !dataset.is_empty() {
            datasets.push(String::from_utf8_lossy(&dataset).into_owned());
        }
    }
    Ok(Sums { entries, datasets, n_chunks, chunk_tokens: 0, format: Format::Legacy })
}

/// Writes a file of the older format. Entries without any data are left out, matrices without data in a stack
/// get ones; only the last dataset is written.
pub(super) fn to_bytes(matrix: &Sums) -> Result<Vec<u8>, Error> {
    let number = |item, found: u64| {
        i32::try_from(found).map(i32::to_le_bytes).map_err(|_| Error::TooMany { item, found })
    };
    let chunk_tokens = i64::from(matrix.chunk_tokens.max(1));
    let stored: Vec<(&String, &Entry)> =
        matrix.entries.iter().filter(|(_, entry)| entry.counts.iter().any(|count| *count > 0)).collect();
    if stored.is_empty() {
        return Err(Error::Empty);
    }
    let mut bytes = number("the number of entries", stored.len() as u64)?.to_vec();
    for (name, entry) in stored {
        let most = entry.counts.iter().max().copied().unwrap_or(0);
        // Rounded up, so that little data is not zero.
        let n_calls = (most as u64).div_ceil(chunk_tokens as u64);
        bytes.extend(number("the length of a name", name.len() as u64)?);
        bytes.extend(name.as_bytes());
        bytes.extend(number("the number of calls", n_calls)?);
        bytes.extend(number("the number of values", entry.sums.len() as u64)?);
        let row_elems = entry.sums.len() / entry.counts.len();
        for (row, &count) in entry.sums.chunks_exact(row_elems).zip(&entry.counts) {
            for &sum in row {
                let (sum, count) = if count > 0 { (sum, count as f32) } else { (1.0, 1.0) };
                bytes.extend((sum / count * n_calls as f32).to_le_bytes());
            }
        }
    }
    bytes.extend(number("the number of pieces", matrix.n_chunks.unsigned_abs())?);
    let dataset = matrix.datasets.last().map_or("", String::as_str);
    bytes.extend(number("the length of a dataset's name", dataset.len() as u64)?);
    bytes.extend(dataset.as_bytes());
    Ok(bytes)
}

struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    fn left(&self) -> u64 {
        (self.bytes.len() - self.at) as u64
    }

    fn take(&mut self, n: u64, item: &'static str) -> Result<&'a [u8], Error> {
        if n > self.left() {
            let (offset, left) = (self.at as u64, self.left());
            return Err(Error::Truncated { item, offset, needed: n, left });
        }
        let taken = &self.bytes[self.at..self.at + n as usize];
        self.at += n as usize;
        Ok(taken)
    }

    fn number(&mut self, item: &'static str) -> Result<i32, Error> {
        let mut number = [0; 4];
        number.copy_from_slice(self.take(4, item)?);
        Ok(i32::from_le_bytes(number))
    }

    fn count(&mut self, item: &'static str, least: i32) -> Result<usize, Error> {
        let offset = self.at as u64;
        let found = self.number(item)?;
        match usize::try_from(found) {
            Ok(count) if found >= least => Ok(count),
            _ => Err(Error::BadCount { item, offset, found: found.into(), least: least.into() }),
        }
    }

    /// A length and this number of bytes, up to the first zero byte.
    fn text(&mut self, item: &'static str) -> Result<Vec<u8>, Error> {
        let length = self.count("the length of a text", 0)?;
        let text = self.take(length as u64, item)?;
        Ok(text.split(|byte| *byte == 0).next().unwrap_or_default().to_vec())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(value: i32) -> [u8; 4] {
        value.to_le_bytes()
    }

    fn entry(name: &[u8], n_calls: i32, values: &[f32]) -> Vec<u8> {
        let mut bytes =
            [&number(name.len() as i32)[..], name, &number(n_calls), &number(values.len() as i32)].concat();
        bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
        bytes
    }

    fn file(entries: &[Vec<u8>], trailer: &[u8]) -> Vec<u8> {
        [&number(entries.len() as i32)[..], &entries.concat(), trailer].concat()
    }

    #[test]
    fn trailers_of_any_length_are_read() {
        let entries = [entry(b"a\0junk", 3, &[1.0, 7.0]), entry(b"b", 0, &[5.0])];
        let plain = parse(&file(&entries, &[])).unwrap();
        assert_eq!(plain.entries["a"], Entry { sums: vec![1.0, 7.0], counts: vec![3] });
        assert_eq!(plain.entries["b"].sums, [5.0]);
        assert_eq!((plain.n_chunks, plain.datasets.len()), (0, 0));
        let trailer = [&number(9)[..], &number(4), b"text"].concat();
        let chunks = parse(&file(&entries, &trailer[..4])).unwrap();
        assert_eq!((chunks.n_chunks, chunks.datasets.len()), (9, 0));
        assert_eq!(parse(&file(&entries, &trailer)).unwrap().datasets, ["text"]);
    }

    #[test]
    fn truncation_is_detected() {
        let entries = [entry(b"blk.0.attn_q.weight", 3, &[1.0, 7.0]), entry(b"b", 1, &[5.0])];
        let trailer = [&number(9)[..], &number(4), b"text"].concat();
        let whole = file(&entries, &trailer);
        let legal = [whole.len() - trailer.len(), whole.len() - trailer.len() + 4];
        for end in 0..whole.len() {
            let parsed = parse(&whole[..end]);
            if legal.contains(&end) {
                parsed.unwrap();
            } else {
                assert!(matches!(parsed, Err(Error::Truncated { .. })), "{end}: {parsed:?}");
            }
        }
    }

    #[test]
    fn hostile_numbers_allocate_nothing() {
        let bad = |bytes: Vec<u8>| parse(&bytes).unwrap_err();
        assert!(matches!(bad(file(&[], &[])), Error::BadCount { found: 0, least: 1, .. }));
        assert!(matches!(bad(number(-1).to_vec()), Error::BadCount { found: -1, .. }));
        assert!(matches!(bad(number(i32::MAX).to_vec()), Error::Truncated { offset: 4, .. }));
        let long_name = [number(1), number(i32::MAX), number(0)].concat();
        assert!(matches!(bad(long_name), Error::Truncated { item: "a name", left: 4, .. }));
        let negative_name = [number(1), number(-5)].concat();
        assert!(matches!(bad(negative_name), Error::BadCount { found: -5, least: 0, .. }));
        let many_values = [number(1), number(0), number(1), number(i32::MAX), number(0)].concat();
        assert!(matches!(bad(many_values), Error::Truncated { item: "values", .. }));
        let no_values = [number(1), number(0), number(1), number(0)].concat();
        assert!(matches!(bad(no_values), Error::BadCount { item: "the number of values", .. }));
        let name = file(&[entry(b"\xff", 1, &[1.0])], &[]);
        assert!(matches!(bad(name), Error::NameNotUtf8 { index: 0, .. }));
    }
}
