//! Every invalid pickle and archive.

use gguf_types::Problem as _;
use std::fs;

use gguf_checkpoint::Error;
use gguf_testkit::{Pickler, zip};

use super::{FILE, folder, golden, open};

/// An archive with this pickle and one storage of 48 bytes under the key `0`.
fn archive(pickle: &[u8]) -> Vec<u8> {
    zip(&[("archive/data.pkl", pickle), ("archive/data/0", &[0; 48]), ("archive/version", b"3\n")])
}

/// A state dict with one tensor `w` from the storage `0`.
fn of_one(storage: (&str, &str, i64), offset: i64, shape: &[i64], strides: &[i64]) -> Vec<u8> {
    archive(&Pickler::new().raw(b"}").text("w").tensor(storage, offset, shape, strides).raw(b"s").stop())
}

#[track_caller]
fn refused(bytes: &[u8], expected: &str) {
    let error = open(bytes).unwrap_err();
    assert_eq!(error.to_string(), format!("`{FILE}`: {expected}"), "{error:?}");
}

const FLOATS: (&str, &str, i64) = ("FloatStorage", "0", 12);

#[test]
fn shapes_and_strides_beyond_storage_are_refused() {
    assert_eq!(open(&of_one(FLOATS, 0, &[3, 4], &[4, 1])).unwrap().tensors.len(), 1);
    assert!(open(&of_one(FLOATS, 3, &[3, 3], &[3, 1])).is_ok());
    assert!(open(&of_one(FLOATS, 12, &[0, 4], &[4, 1])).is_ok(), "nothing is nowhere");
    let beyond = |offset: i64, shape: &[i64], strides: &[i64]| {
        format!(
            "tensor `w`: offset {offset}, shape {shape:?} and strides {strides:?} reach beyond its storage of 12 elements"
        )
    };
    let max = i64::MAX;
    for (offset, shape, strides) in [
        (1, vec![3, 4], vec![4, 1]),
        (0, vec![3, 4], vec![5, 1]),
        (12, vec![1], vec![1]),
        (max, vec![2], vec![1]),
        (0, vec![2, 2], vec![max, 1]),
        (0, vec![3, 3], vec![max, max]),
        (max, vec![], vec![]),
    ] {
        refused(&of_one(FLOATS, offset, &shape, &strides), &beyond(offset, &shape, &strides));
    }
    refused(
        &of_one(FLOATS, 0, &[max, max], &[0, 0]),
        &format!("tensor `w`: the size of shape [{max}, {max}] of F32 is out of range"),
    );
    refused(&of_one(FLOATS, 0, &[-1, 2], &[2, 1]), "tensor `w`: invalid dimensions");
    refused(&of_one(FLOATS, 0, &[2, 2], &[-2, 1]), "tensor `w`: invalid strides");
    refused(&of_one(FLOATS, -1, &[2, 2], &[2, 1]), "tensor `w`: invalid offset");
    refused(&of_one(FLOATS, 0, &[2, 2], &[1]), "tensor `w`: 2 dimensions and 1 strides");
    // Any size may be claimed for a dimension that repeats one element: it is free until it is read.
    let wide = open(&of_one(FLOATS, 0, &[1 << 40, 4], &[0, 1])).unwrap();
    let mut last = [1.0; 4];
    let n_rows = 1 << 40;
    wide.read_rows(&wide.tensors[0], 4, n_rows - 1..n_rows, &mut last).unwrap();
    assert_eq!(last, [0.0; 4]);
}

#[test]
fn mismatched_storages_are_refused() {
    let one = |class: &str, key: &str, numel: i64| of_one((class, key, numel), 0, &[2], &[1]);
    refused(&one("FloatStorage", "0", 13), "tensor `w`: storage `0` of 13 F32 has 48 bytes");
    refused(
        &one("DoubleStorage", "0", i64::MAX),
        "tensor `w`: storage `0` of 9223372036854775807 F64 has 48 bytes",
    );
    refused(&one("FloatStorage", "1", 12), "missing entry `archive/data/1`");
    refused(&one("FloatStorage", "../data/0", 12), "missing entry `archive/data/../data/0`");
    refused(&one("FloatStorage", "0", -1), "tensor `w`: a storage that is not named as torch does");
    refused(&one("Size", "0", 12), "tensor `w`: a storage that is not named as torch does");
    let untyped =
        Pickler::new().raw(b"}").text("w").raw(b"ctorch._utils\n_rebuild_tensor_v2\n((").text("storage");
    let untyped = untyped.raw(b"ctorch.storage\nUntypedStorage\n").text("0").text("cpu").int(48).raw(b"tQ");
    let untyped = untyped.int(0).ints(&[2]).ints(&[1]).raw(b"\x89NtRs").stop();
    refused(&archive(&untyped), "tensor `w`: untyped storage without a tensor type");
}

#[test]
fn invalid_tensors_are_refused() {
    let dict = |value: &[u8]| archive(&Pickler::new().raw(b"}").text("w").raw(value).raw(b"s").stop());
    let call = |arguments: &[u8]| dict(&[b"ctorch._utils\n_rebuild_tensor_v2\n(", arguments, b"tR"].concat());
    // A top-level value that is not a tensor is searched for tensors.
    let nothing = "expected a dictionary of tensors, found neither tensors nor a known key with tensors";
    refused(&dict(b"N"), nothing);
    refused(&call(b"N"), "tensor `w`: fewer than four arguments");
    refused(&call(b"NK\0))"), "tensor `w`: the first argument is not a storage");
    refused(
        &archive(&Pickler::new().raw(b"N").stop()),
        "expected a dictionary of tensors, found another value",
    );
    let numbered = Pickler::new().raw(b"}K\x01").tensor(FLOATS, 0, &[2], &[1]).raw(b"s").stop();
    refused(&archive(&numbered), "expected a dictionary of tensors, found a key that is not a string");
    let twice = ["w", "w"]
        .iter()
        .fold(Pickler::new().raw(b"}("), |pickler, name| pickler.text(name).tensor(FLOATS, 0, &[2], &[1]));
    let error = open(&archive(&twice.raw(b"u").stop())).unwrap_err();
    assert!(matches!(error, Error::DuplicateTensor { .. }), "{error}");
    // A parameter around a parameter, and so on: deeper than any real file.
    let deep = b"ctorch._utils\n_rebuild_parameter\n".repeat(9);
    let deep =
        Pickler::new().raw(b"}").text("w").raw(&deep).tensor(FLOATS, 0, &[2], &[1]).raw(&b"\x85R".repeat(9));
    refused(&archive(&deep.raw(b"s").stop()), nothing);
}

#[test]
fn unneeded_pickle_instructions_are_refused() {
    let pickle = |bytes: &[u8]| archive(&Pickler::new().raw(bytes).stop());
    let byte = |at: u64, rest: &str| format!("byte {at} of the pickle{rest}");
    for (bytes, at, rest) in [
        (&b"cos\nsystem\n(X\x02\0\0\0ls\x85R"[..], 2, " imports `os.system`, which is not allowed"),
        (b"cbuiltins\neval\n", 2, " imports `builtins.eval`, which is not allowed"),
        (b"ctorch.nn\nLinear\n", 2, " imports `torch.nn.Linear`, which is not allowed"),
        (b"NNios\nsystem\n", 4, ": opcode 0x69 is not supported"),
        (b"\x93", 2, ": opcode 0x93 is not supported"),
        (b"\x82\x01", 2, ": opcode 0x82 is not supported"),
        (b"P1\n", 2, ": opcode 0x50 is not supported"),
        (b"\x80\x05", 2, ": expected protocol 2, found 5"),
        (b"R", 2, ": too few values on the stack for opcode 0x52"),
        (b"N(\x85", 4, ": too few values on the stack for opcode 0x85"),
        (b"N(0", 4, ": opcode 0x30 is not supported"),
        (b"Nt", 3, ": missing mark on the stack"),
        (b"h\x01", 2, ": memo entry 1 was never stored"),
        (b"q\x01", 2, ": too few values on the stack for opcode 0x71"),
        (b"NNR", 4, ": expected a name to call"),
        (b"ctorch\nSize\nNR", 15, ": expected a tuple of arguments"),
        (b"ctorch\nSize\nN\x85R", 16, ": expected a tuple of dimensions"),
        (b"NQ", 3, ": expected a tuple that names a storage"),
        (b"NNb", 4, ": expected a dictionary to give attributes"),
        (b"NNNs", 5, ": expected a dictionary for keys and values"),
        (b"}(Nu", 5, ": expected a dictionary for keys and values"),
        (b"}Na", 4, ": expected a list for items"),
        (b"\x8a\x0a0123456789", 2, ": integer of 10 bytes, expected at most 8"),
        (b"\x8a\x0912345678\x01", 2, ": integer of 9 bytes, expected at most 8"),
        (b"X\x02\0\0\0\xff\xff", 2, ": string of 2 bytes is not valid UTF-8 or longer than 65536 bytes"),
        (b"X\x01\0\x01\0", 2, ": string of 65537 bytes is not valid UTF-8 or longer than 65536 bytes"),
        (b"X\xff\0\0\0a", 7, ": the pickle ends, expected 255 more bytes"),
        (b"ctorch", 3, ": the pickle ends, expected 1 more bytes"),
        (b"N(", 4, ": too few values on the stack for opcode 0x2e"),
    ] {
        refused(&pickle(bytes), &byte(at, rest));
    }
    refused(&archive(b""), &byte(0, ": the pickle ends, expected 1 more bytes"));
    refused(&archive(b"\x80\x02N"), &byte(3, ": the pickle ends, expected 1 more bytes"));
}

/// Short pickles that would expand: copies of copies, lists in lists, values without end.
#[test]
fn expanding_pickles_are_refused() {
    let pickle = |pickler: Pickler| archive(&pickler.stop());
    // Each line makes a tuple of the previous one, twice.
    let mut doubling = Pickler::new().raw(b")q\0");
    for _ in 0..1000 {
        doubling = doubling.raw(b"h\0h\0\x86q\0");
    }
    assert!(matches!(open(&pickle(doubling.clone())), Err(Error::Pickle { .. })));
    // Next to a tensor: searched for tensors once, not 2^1000 times.
    let extra = Pickler::new().raw(b"}(").text("w").tensor(FLOATS, 0, &[2], &[1]).text("more");
    let extra = extra.raw(b"(").raw(&doubling.bytes[2..]).raw(b"t");
    let opened = open(&pickle(extra.raw(b"u"))).unwrap();
    assert_eq!(opened.notes, ["`pytorch_model.bin`: values that are not tensors are ignored: `more`"]);
    // A list that contains itself.
    let own = Pickler::new().raw(b"}(").text("w").tensor(FLOATS, 0, &[2], &[1]).text("own").raw(b"]q\0h\0a");
    assert_eq!(open(&pickle(own.raw(b"u"))).unwrap().tensors.len(), 1);
    // Maximum depth.
    let deep = Pickler::new().raw(&b"(".repeat(1 << 20)).raw(&b"t".repeat(1 << 20));
    assert!(matches!(open(&pickle(deep)), Err(Error::Pickle { .. })));
    // A list of a million pairs, copied by every call; and values without end.
    let pairs = Pickler::new().raw(b"](").raw(&b"NN\x86".repeat(1 << 17)).raw(b"eq\0");
    let copies = pairs.raw(&b"ccollections\nOrderedDict\nh\0\x85R".repeat(100));
    for (many, bytes) in [(copies, 395_021), (Pickler::new().raw(&b"N".repeat((8 << 20) + 9)), 8_388_611)] {
        let error = open(&pickle(many)).unwrap_err().to_string();
        let limits = "exceed the limit of 8388608 values or 67108864 bytes";
        assert!(error.contains(limits) && error.contains(&format!("in {bytes} bytes")), "{error}");
    }
}

#[test]
fn contradictory_archives_are_refused() {
    let good = of_one(FLOATS, 0, &[3, 4], &[4, 1]);
    let pickle = Pickler::new().raw(b"}").text("w").tensor(FLOATS, 0, &[3, 4], &[4, 1]).raw(b"s").stop();
    let entry: (&str, &[u8]) = ("archive/data.pkl", &pickle);
    refused(
        &zip(&[entry, ("archive/data/0", &[0; 48]), ("archive/data/0", &[1; 48])]),
        "duplicate entry `archive/data/0`",
    );
    refused(&zip(&[entry, ("other/data.pkl", &pickle)]), "duplicate entry `other/data.pkl`");
    refused(&zip(&[("archive/data/0", &[0; 48])]), "missing entry `*/data.pkl`");
    let script = "TorchScript archive (entry `archive/constants.pkl`), which contains a program in addition to weights, is not supported";
    refused(&zip(&[entry, ("archive/constants.pkl", b"")]), script);
    // Fields of the directory, whose last entries are `archive/data/0` and `archive/version`.
    let directory = good.windows(4).position(|bytes| bytes == b"PK\x01\x02").unwrap();
    let second = directory + 46 + "archive/data.pkl".len();
    let changed = |at: usize, value: &[u8]| {
        let mut bytes = good.clone();
        bytes[at..at + value.len()].copy_from_slice(value);
        bytes
    };
    // It begins at the start of the pickle.
    let overlap = open(&changed(second + 42, &0u32.to_le_bytes())).unwrap_err().to_string();
    assert!(overlap.starts_with("`pytorch_model.bin`: entries `archive/data"), "{overlap}");
    assert!(overlap.ends_with("overlap at byte 0"), "{overlap}");
    // The largest possible number.
    let sizes = [0xff, 0xff, 0xff, 0x7f, 0xff, 0xff, 0xff, 0x7f];
    let begin = 30 + "archive/data.pkl".len() + pickle.len();
    let end = begin as u64 + 0x7fff_ffff;
    refused(
        &changed(second + 20, &sizes),
        &format!(
            "entry `archive/data/0`: bytes {begin} to {end} exceed the file size of {} bytes",
            good.len()
        ),
    );
    // Encrypted; of two sizes; with an unknown method.
    let not_stored = "entry `archive/data/0` is compressed or encrypted, expected a stored entry";
    refused(&changed(second + 8, &[1]), not_stored);
    refused(&changed(second + 24, &[47]), not_stored);
    refused(&changed(second + 10, &[99]), not_stored);
    let mut cut = good.clone();
    cut.truncate(directory);
    assert!(
        open(&cut).unwrap_err().to_string().starts_with("`pytorch_model.bin`: invalid archive directory")
    );
    says_not_a_pickle(b"");
    says_not_a_pickle(b"version https://git-lfs");
}

#[track_caller]
fn says_not_a_pickle(bytes: &[u8]) {
    let error = open(bytes).unwrap_err();
    assert_eq!(error.to_string(), "`pytorch_model.bin` was not written by torch.save: found something else");
    assert!(error.hint().unwrap().to_string().contains("git-lfs"));
}

#[test]
fn truncation_at_every_byte_is_refused() {
    for name in ["module.bin", "module-legacy.bin"] {
        let whole = fs::read(golden("forms").join(name)).unwrap();
        let dir = folder(&[]);
        for n in 0..whole.len() {
            fs::write(dir.path().join(FILE), &whole[..n]).unwrap();
            assert!(gguf_checkpoint::open(dir.path()).is_err(), "{name}: {n} bytes of {}", whole.len());
        }
    }
}

#[test]
fn contradictory_legacy_files_are_refused() {
    let good = fs::read(golden("forms/module-legacy.bin")).unwrap();
    let at = |text: &[u8]| good.windows(text.len()).position(|bytes| bytes == text).unwrap();
    let changed = |place: usize, value: &[u8]| {
        let mut bytes = good.clone();
        bytes[place..place + value.len()].copy_from_slice(value);
        bytes
    };
    assert!(open(&good).is_ok());
    refused(&changed(18, &[0xea]), "protocol version 1001 was expected after the magic number");
    // NEWTRUE after the key and its index in the memo.
    let little = at(b"little_endian") + "little_endian".len() + 2;
    assert_eq!(good[little], 0x88);
    refused(&changed(little, &[0x89]), "big-endian files are not supported");
    refused(
        &[&good[..], b"\0"].concat(),
        &format!("the storages end at byte {}, but the file has {} bytes", good.len(), good.len() + 1),
    );
    // The list of keys is the last pickle; the first storage, with its length, follows it.
    let list = good.windows(3).rposition(|bytes| bytes == [0x80, 2, b']']).unwrap();
    let first = list + good[list..].windows(2).position(|bytes| bytes == b"e.").unwrap() + 2;
    for numel in [-1, i64::MAX, 1 << 40] {
        let error = open(&changed(first, &i64::to_le_bytes(numel))).unwrap_err().to_string();
        assert!(error.contains("does not end within the file's"), "{error}");
    }
    let key = list + good[list..].iter().position(|byte| byte.is_ascii_digit()).unwrap();
    let error = open(&changed(key, b"x")).unwrap_err().to_string();
    assert!(error.contains("is not used by any tensor"), "{error}");
}

#[test]
fn inconsistent_shards_and_index_are_refused() {
    let part = |name: &str| {
        archive(&Pickler::new().raw(b"}").text(name).tensor(FLOATS, 0, &[2], &[1]).raw(b"s").stop())
    };
    let (a, b) = (part("a"), part("b"));
    let [first, second] = ["pytorch_model-00001-of-00002.bin", "pytorch_model-00002-of-00002.bin"];
    let index = "pytorch_model.bin.index.json";
    let error =
        |files: &[(&str, &[u8])]| gguf_checkpoint::open(folder(files).path()).unwrap_err().to_string();
    assert_eq!(gguf_checkpoint::open(folder(&[(first, &a), (second, &b)]).path()).unwrap().tensors.len(), 2);
    assert_eq!(error(&[(first, &a)]), format!("missing weight file `{second}`: `{first}` counts 2 files"));
    assert_eq!(
        error(&[(first, &a), (second, &a)]),
        format!("tensor `a` is in both `{first}` and `{second}`")
    );
    let listed = format!(r#"{{"weight_map":{{"a":"{first}","b":"{second}","c":"{second}"}}}}"#);
    assert_eq!(
        error(&[(first, &a), (second, &b), (index, listed.as_bytes())]),
        format!("`{index}` does not match the weight files: no file contains `c`")
    );
    let listed = format!(r#"{{"weight_map":{{"a":"{first}"}}}}"#);
    assert_eq!(
        gguf_checkpoint::open(folder(&[(first, &a), (second, &b), (index, listed.as_bytes())]).path())
            .unwrap()
            .tensors
            .len(),
        1
    );
    let empty = archive(&Pickler::new().raw(b"}").text("model").raw(b"}s").stop());
    assert_eq!(error(&[(FILE, &empty)]), format!("`{FILE}` does not contain tensors"));
}

#[test]
fn safetensors_are_preferred_with_note() {
    let header = br#"{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}"#;
    let safetensors = [&(header.len() as u64).to_le_bytes()[..], header, &[0; 4]].concat();
    let bin = of_one(FLOATS, 0, &[3, 4], &[4, 1]);
    let checkpoint =
        gguf_checkpoint::open(folder(&[("model.safetensors", &safetensors), (FILE, &bin)]).path()).unwrap();
    assert_eq!(checkpoint.format, "safetensors");
    assert_eq!(
        checkpoint.notes,
        [
            "weights are read from `model.safetensors` (safetensors); ignored: `pytorch_model.bin` (torch pickles)"
        ]
    );
}
