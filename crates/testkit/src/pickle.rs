//! Archives and pickles in the format of `torch.save`, one instruction at a time, for files that torch would
//! not write.

/// A zip archive of uncompressed entries. Checksums are 0, because readers of checkpoints do not check them.
pub fn zip(entries: &[(&str, &[u8])]) -> Vec<u8> {
    let (mut bytes, mut directory) = (Vec::new(), Vec::new());
    for (name, data) in entries {
        let (begin, size) = (bytes.len() as u32, data.len() as u32);
        // Version, flags, method, time, date, checksum, sizes, lengths of name and extra fields.
        let mut fields = vec![20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        fields.extend(size.to_le_bytes());
        fields.extend(size.to_le_bytes());
        fields.extend((name.len() as u16).to_le_bytes());
        fields.extend([0, 0]);
        bytes.extend(b"PK\x03\x04");
        bytes.extend(&fields);
        bytes.extend(name.as_bytes());
        bytes.extend(*data);
        directory.extend(b"PK\x01\x02\x14\0");
        directory.extend(&fields);
        // Comment, disk, attributes, place of the local header.
        directory.extend([0; 10]);
        directory.extend(begin.to_le_bytes());
        directory.extend(name.as_bytes());
    }
    let (begin, size, n) = (bytes.len() as u32, directory.len() as u32, entries.len() as u16);
    bytes.extend(directory);
    bytes.extend(b"PK\x05\x06\0\0\0\0");
    bytes.extend([n.to_le_bytes(), n.to_le_bytes()].concat());
    bytes.extend([size.to_le_bytes(), begin.to_le_bytes()].concat());
    bytes.extend([0, 0]);
    bytes
}

/// A pickle in the making.
#[derive(Debug, Clone, Default)]
pub struct Pickler {
    /// Instructions so far.
    pub bytes: Vec<u8>,
}

impl Pickler {
    /// A pickle of protocol 2.
    pub fn new() -> Pickler {
        Pickler { bytes: vec![0x80, 2] }
    }

    /// Adds raw instructions.
    pub fn raw(mut self, bytes: &[u8]) -> Pickler {
        self.bytes.extend(bytes);
        self
    }

    /// A text.
    pub fn text(self, text: &str) -> Pickler {
        self.raw(b"X").raw(&(text.len() as u32).to_le_bytes()).raw(text.as_bytes())
    }

    /// An integer of 64 bits.
    pub fn int(self, int: i64) -> Pickler {
        self.raw(&[0x8a, 8]).raw(&int.to_le_bytes())
    }

    /// A tuple of integers.
    pub fn ints(mut self, ints: &[i64]) -> Pickler {
        self = self.raw(b"(");
        self = ints.iter().fold(self, |pickler, int| pickler.int(*int));
        self.raw(b"t")
    }

    /// A storage: its class, its key, its elements.
    pub fn storage(self, class: &str, key: &str, numel: i64) -> Pickler {
        let class = format!("ctorch\n{class}\n");
        self.raw(b"(").text("storage").raw(class.as_bytes()).text(key).text("cpu").int(numel).raw(b"tQ")
    }

    /// A tensor of the storage `(class, key, numel)`: offset, shape, strides.
    pub fn tensor(self, storage: (&str, &str, i64), offset: i64, shape: &[i64], strides: &[i64]) -> Pickler {
        let (class, key, numel) = storage;
        self.raw(b"ctorch._utils\n_rebuild_tensor_v2\n(")
            .storage(class, key, numel)
            .int(offset)
            .ints(shape)
            .ints(strides)
            .raw(b"\x89ccollections\nOrderedDict\n)RtR")
    }

    /// The end.
    pub fn stop(self) -> Vec<u8> {
        self.raw(b".").bytes
    }
}
