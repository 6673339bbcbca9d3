//! Parses the bytes of a header; every step is checked against the remaining bytes.

use crate::{Endian, Error};

/// A position in the bytes of a file, with the file's byte order and count width.
pub(super) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
    endian: Endian,
    wide_counts: bool,
}

/// A number of fixed width in either byte order.
pub(super) trait Number: Copy {
    /// Width in bytes.
    const WIDTH: usize;
    /// Converts exactly [`Number::WIDTH`] bytes.
    fn from_bytes(bytes: &[u8], endian: Endian) -> Self;
}

macro_rules! numbers {
    ($($type:ty),*) => {
        $(impl Number for $type {
            const WIDTH: usize = size_of::<$type>();

            fn from_bytes(bytes: &[u8], endian: Endian) -> Self {
                let mut array = [0; size_of::<$type>()];
                array.copy_from_slice(bytes);
                match endian {
                    Endian::Little => <$type>::from_le_bytes(array),
                    Endian::Big => <$type>::from_be_bytes(array),
                }
            }
        })*
    };
}

numbers!(u8, i8, u16, i16, u32, i32, f32, u64, i64, f64);

impl<'a> Cursor<'a> {
    /// Starts at `at`. With `wide_counts`, counts and lengths have 64 bits, otherwise 32.
    pub(super) fn new(bytes: &'a [u8], at: usize, endian: Endian, wide_counts: bool) -> Self {
        Cursor { bytes, at, endian, wide_counts }
    }

    /// Offset from the start of the file.
    pub(super) fn at(&self) -> u64 {
        self.at as u64
    }

    fn left(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// Bytes of a count or a length.
    pub(super) fn count_width(&self) -> u64 {
        if self.wide_counts { 8 } else { 4 }
    }

    pub(super) fn take(&mut self, len: u64, item: &'static str) -> Result<&'a [u8], Error> {
        let left = self.left() as u64;
        if len > left {
            return Err(Error::Truncated { item, offset: self.at(), needed: len, left });
        }
        let taken = &self.bytes[self.at..self.at + len as usize];
        self.at += len as usize;
        Ok(taken)
    }

    pub(super) fn number<T: Number>(&mut self, item: &'static str) -> Result<T, Error> {
        Ok(T::from_bytes(self.take(T::WIDTH as u64, item)?, self.endian))
    }

    /// The next `count` numbers; checks that they exist before allocating.
    pub(super) fn numbers<T: Number>(&mut self, count: u64, item: &'static str) -> Result<Vec<T>, Error> {
        self.check_count(count, T::WIDTH as u64, item)?;
        let bytes = self.take(count * T::WIDTH as u64, item)?;
        Ok(bytes.chunks_exact(T::WIDTH).map(|bytes| T::from_bytes(bytes, self.endian)).collect())
    }

    /// The next count or length, in the width of the file's version.
    pub(super) fn count(&mut self, item: &'static str) -> Result<u64, Error> {
        if self.wide_counts { self.number(item) } else { self.number::<u32>(item).map(u64::from) }
    }

    /// The next length and the bytes that follow.
    pub(super) fn string(&mut self, item: &'static str) -> Result<&'a [u8], Error> {
        let len = self.count(item)?;
        self.take(len, item)
    }

    /// Refuses a count of items of at least `min_bytes` each that exceeds the remaining bytes.
    pub(super) fn check_count(&self, count: u64, min_bytes: u64, item: &'static str) -> Result<(), Error> {
        let left = self.left() as u64;
        if count > left / min_bytes {
            return Err(Error::CountTooLarge { item, count, offset: self.at(), left });
        }
        Ok(())
    }
}
