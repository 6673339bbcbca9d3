//! Files that a program writes and edits: own tensors, metadata, shards.

use std::{
    fs,
    path::{Path, PathBuf},
};

use gguf_toolkit::{
    Array, DType, Endian, SplitLimits, Value, Writer,
    edit::{EditOptions, Rename, edit},
    endian::{EndianOptions, change_endian},
    merge::{MergeOptions, merge},
    split::{ShardOptions, SplitOptions, split},
};
use ndarray::{Array2, Array3, s};

fn golden(name: &str) -> PathBuf {
    gguf_testkit::golden_path("writer").join(name)
}

/// Rows of 32 numbers that every type holds without rounding.
fn ramp() -> Array2<f32> {
    Array2::from_shape_fn((3, 32), |(row, column)| (row * 32 + column) as f32 / 8.0 - 3.0)
}

/// The calls of `keys` in the maker of the goldens.
fn add_keys(writer: &mut Writer<'_>) {
    let key = |name: &str| format!("own.{name}");
    writer.add("general.name", "own").unwrap();
    writer.add("llama.block_count", 2u32).unwrap();
    writer.add(&key("u8"), 200u8).unwrap();
    writer.add(&key("i8"), -100i8).unwrap();
    writer.add(&key("u16"), 60_000u16).unwrap();
    writer.add(&key("i16"), -30_000i16).unwrap();
    writer.add(&key("u32"), 4_000_000_000u32).unwrap();
    writer.add(&key("i32"), -2_000_000_000i32).unwrap();
    writer.add(&key("f32"), 0.1f32).unwrap();
    writer.add(&key("u64"), 1u64 << 63).unwrap();
    writer.add(&key("i64"), -(1i64 << 62)).unwrap();
    writer.add(&key("f64"), 0.1f64).unwrap();
    writer.add(&key("bool"), true).unwrap();
    writer.add(&key("texts"), vec!["a", "ß", ""]).unwrap();
    writer.add(&key("ints"), vec![1i32, -2, 3]).unwrap();
    writer.add(&key("floats"), vec![0.5f32, -1.5]).unwrap();
    writer.add(&key("bools"), vec![true, false]).unwrap();
    writer.add(&key("bytes"), vec![1u8, 2, 255]).unwrap();
    writer.add(&key("nested"), vec![Array::I32(vec![1, 2]), Array::I32(vec![3])]).unwrap();
}

/// The calls of `numbers` there.
fn add_numbers<'a>(writer: &mut Writer<'a>, ramp: &'a Array2<f32>, cube: &'a Array3<f32>) {
    let halves = ramp.iter().flat_map(|value| gguf_types::half::f32_to_f16(*value).to_le_bytes());
    writer.add_array("ramp.f32", ramp.view()).unwrap();
    writer.add_blocks("ramp.f16", &[3, 32], DType::F16, halves.collect::<Vec<u8>>()).unwrap();
    writer.add_tensor("ramp.f64", &[3, 32], ramp.iter().map(|v| f64::from(*v)).collect::<Vec<_>>()).unwrap();
    writer.add_tensor("ramp.i8", &[3, 32], ramp.iter().map(|v| *v as i8).collect::<Vec<_>>()).unwrap();
    writer.add_tensor("ramp.i16", &[3, 32], ramp.iter().map(|v| *v as i16).collect::<Vec<_>>()).unwrap();
    writer.add_tensor("ramp.i32", &[3, 32], ramp.iter().map(|v| *v as i32).collect::<Vec<_>>()).unwrap();
    writer.add_tensor("ramp.i64", &[3, 32], ramp.iter().map(|v| *v as i64).collect::<Vec<_>>()).unwrap();
    writer.add_array("cube", cube.view()).unwrap();
    writer.add_tensor("vector", &[5], vec![0f32, 1.0, 2.0, 3.0, 4.0]).unwrap();
}

fn cube() -> Array3<f32> {
    Array3::from_shape_fn((2, 3, 4), |(a, b, c)| ((a * 3 + b) * 4 + c) as f32)
}

/// Writes a file and compares it, or each of its shards, with the golden of the same name.
fn check(writer: &Writer<'_>, name: &str) {
    let sandbox = tempfile::tempdir().unwrap();
    let plans = writer.plan().unwrap();
    let paths = writer.write(sandbox.path().join(name), false, &()).unwrap();
    assert_eq!(paths.len(), plans.len());
    for (path, plan) in paths.iter().zip(plans) {
        let written = fs::read(path).unwrap();
        assert_eq!(written.len() as u64, plan.file_len(), "{}", path.display());
        let golden = golden(path.file_name().unwrap().to_str().unwrap());
        assert!(written == fs::read(&golden).unwrap(), "{} differs", golden.display());
    }
    assert_eq!(fs::read_dir(sandbox.path()).unwrap().count(), paths.len());
}

#[test]
fn written_files_equal_those_of_gguf_py() {
    let (ramp, cube) = (ramp(), cube());
    let mut writer = Writer::new("llama");
    add_keys(&mut writer);
    add_numbers(&mut writer, &ramp, &cube);
    writer.add_tensor_as("ramp.bf16", ramp.view(), DType::BF16).unwrap();
    writer.add_tensor_as("ramp.q8_0", ramp.view(), DType::Q8_0).unwrap();
    check(&writer, "plain.gguf");

    let mut writer = Writer::new("llama");
    add_keys(&mut writer);
    add_numbers(&mut writer, &ramp, &cube);
    writer.set_endian(Endian::Big);
    check(&writer, "big.gguf");

    let mut writer = Writer::new("llama");
    writer.set_alignment(64).add("general.name", "aligned").unwrap();
    writer.add_tensor("vector", &[5], vec![0f32, 1.0, 2.0, 3.0, 4.0]).unwrap();
    writer.add_array("cube", cube.view()).unwrap();
    check(&writer, "aligned.gguf");
}

#[test]
fn written_shards_equal_those_of_gguf_py() {
    let (ramp, cube) = (ramp(), cube());
    let limits = SplitLimits { max_tensors: Some(2), ..SplitLimits::default() };
    let sized = SplitLimits { max_bytes: Some(600), no_tensor_first: true, ..SplitLimits::default() };
    for (name, limits) in [("limited", limits), ("sized", sized)] {
        let mut writer = Writer::new("llama");
        writer.add("general.name", name).unwrap();
        add_numbers(&mut writer, &ramp, &cube);
        writer.set_split(limits);
        check(&writer, &format!("{name}.gguf"));
    }
}

#[test]
fn file_of_metadata_alone_ends_with_its_last_key() {
    let sandbox = tempfile::tempdir().unwrap();
    let path = sandbox.path().join("metadata.gguf");
    let mut writer = Writer::new("llama");
    add_keys(&mut writer);
    writer.write_metadata(&path, false).unwrap();
    assert_eq!(fs::read(&path).unwrap(), fs::read(golden("metadata.gguf")).unwrap());
    let error = writer.write_metadata(&path, false).unwrap_err();
    assert!(error.to_string().ends_with("already exists"), "{error}");
}

/// Blocks of Q8_0 in pieces that do not end with them.
#[test]
fn pieces_of_any_length_make_the_same_file() {
    let sandbox = tempfile::tempdir().unwrap();
    let ramp = ramp();
    let blocks = gguf_toolkit::encode(DType::Q8_0, ramp.view()).unwrap().into_raw_vec_and_offset().0;
    for endian in [Endian::Little, Endian::Big] {
        let mut whole = Writer::new("llama");
        whole.add_tensor_as("a", ramp.view(), DType::Q8_0).unwrap().set_endian(endian);
        let mut pieces = Writer::new("llama");
        let produce = |sink: &mut gguf_toolkit::writer::Sink<'_>| blocks.chunks(7).try_for_each(&mut *sink);
        pieces.add_produced("a", &[3, 32], DType::Q8_0, produce).unwrap().set_endian(endian);
        let mut later = Writer::new("llama");
        later.add_tensor_info("a", &[3, 32], DType::Q8_0).unwrap().set_endian(endian);
        let path = |name: &str| sandbox.path().join(format!("{endian}-{name}.gguf"));
        whole.write(path("whole"), false, &()).unwrap();
        pieces.write(path("pieces"), false, &()).unwrap();
        let mut open = later.open(path("later"), false).unwrap();
        assert_eq!(open.next_tensor().unwrap().name, "a");
        blocks.chunks(5).for_each(|piece| open.write(piece).unwrap());
        assert!(open.next_tensor().is_none() && open.write(&[0]).is_err());
        open.finish().unwrap();
        let expected = fs::read(path("whole")).unwrap();
        assert!(
            expected == fs::read(path("pieces")).unwrap() && expected == fs::read(path("later")).unwrap()
        );
    }
}

#[test]
fn strided_array_is_written_in_its_order() {
    let sandbox = tempfile::tempdir().unwrap();
    let path = sandbox.path().join("a.gguf");
    let ramp = ramp();
    let mut writer = Writer::default();
    writer.add_array("turned", ramp.t()).unwrap();
    writer.add_array("every-second", ramp.slice(s![.., ..;2])).unwrap();
    writer.write(&path, false, &()).unwrap();
    let file = gguf_toolkit::open(&path).unwrap();
    assert_eq!(file.tensor("turned").unwrap().decode().unwrap(), ramp.t().into_dyn());
    let second = file.tensor("every-second").unwrap();
    assert_eq!(second.decode().unwrap(), ramp.slice(s![.., ..;2]).into_dyn());
}

#[test]
fn errors_name_tensor_expected_and_found() {
    let sandbox = tempfile::tempdir().unwrap();
    let (path, ramp) = (sandbox.path().join("a.gguf"), ramp());
    let mut writer = Writer::new("llama");
    let message = |error: gguf_toolkit::Error| error.to_string();
    let error = writer.add("general.architecture", "gemma").unwrap_err();
    assert_eq!(message(error), "duplicate metadata key `general.architecture`");
    let error = writer.add_tensor("a", &[2, 3], vec![0f32; 5]).unwrap_err();
    let facts = error.facts();
    assert_eq!(message(error), "tensor `a`: expected 24 bytes of data, found 20");
    assert_eq!((&*facts["tensor"], &*facts["expected"], &*facts["found"]), ("a", "24", "20"));
    let error = writer.add_tensor_info("a", &[4, 33], DType::Q8_0).unwrap_err();
    let text = message(error);
    assert!(text.starts_with("tensor `a`: ") && text.contains("33") && text.contains("32"), "{text}");
    assert!(writer.add_tensor_as("a", ramp.view(), DType::Q8_1).is_err());
    writer.add_tensor("a", &[2], vec![0f32; 2]).unwrap();
    let error = writer.add_tensor("a", &[2], vec![0f32; 2]).unwrap_err();
    assert_eq!(message(error), "duplicate tensor `a`");

    writer.add_produced("b", &[4], DType::I8, |sink| sink(&[0; 3])).unwrap();
    let error = writer.write(&path, false, &()).unwrap_err();
    assert_eq!(message(error), "tensor `b`: expected 4 bytes of data, found 3");
    let mut writer = Writer::default();
    writer.add_produced("b", &[4], DType::I8, |sink| sink(&[0; 5])).unwrap();
    let error = writer.write(&path, false, &()).unwrap_err();
    assert_eq!(message(error), "tensor `b`: expected 4 bytes of data, found 5");
    let open = writer.open(&path, false).unwrap();
    let error = open.finish().unwrap_err();
    assert_eq!(message(error), "tensor `b`: expected 4 bytes of data, found 0");
    assert_eq!(fs::read_dir(sandbox.path()).unwrap().count(), 0, "failed runs leave nothing");
}

fn copy_of_plain(sandbox: &Path) -> PathBuf {
    let path = sandbox.join("plain.gguf");
    fs::copy(golden("plain.gguf"), &path).unwrap();
    path
}

#[test]
fn edit_applies_all_changes_and_reports_them() {
    let sandbox = tempfile::tempdir().unwrap();
    let path = copy_of_plain(sandbox.path());
    let rename = vec!["own.i*=mine.i*".parse::<Rename>().unwrap()];
    let options = EditOptions {
        rename,
        unset: vec!["own.n*".to_owned()],
        assignments: vec!["general.name=str:edited".to_owned()],
        ..EditOptions::of(&path).set("own.u8", 7u8).set("own.new", vec![1u16])
    };
    // Options are data.
    let json = serde_json::to_string(&options).unwrap();
    assert_eq!(serde_json::from_str::<EditOptions>(&json).unwrap(), options);
    assert!(serde_json::from_str::<EditOptions>(r#"{"fil": "a"}"#).is_err());

    let before = fs::read(&path).unwrap();
    let planned = edit(&EditOptions { dry_run: true, ..options.clone() }, &()).unwrap();
    assert!(!planned.written && fs::read(&path).unwrap() == before);
    let edited = edit(&options, &()).unwrap();
    assert!(edited.written && !edited.in_place && edited.changes == planned.changes);
    let changed: Vec<&str> = edited.changes.iter().map(|change| change.key.as_str()).collect();
    assert!(changed.contains(&"own.nested") && changed.contains(&"mine.i8") && changed.contains(&"own.new"));
    let file = gguf_toolkit::open(&path).unwrap();
    let metadata = file.metadata();
    assert_eq!(metadata.get("general.name"), Some(&"edited".into()));
    assert_eq!(metadata.get("own.u8"), Some(&Value::U8(7)));
    assert_eq!(metadata.get("mine.i8"), Some(&Value::I8(-100)));
    assert_eq!(metadata.get("own.new"), Some(&Value::Array(Array::U16(vec![1]))));
    assert!(!metadata.contains("own.i8") && !metadata.contains("own.nested"));
    assert_eq!(fs::metadata(&path).unwrap().len(), edited.file_bytes);

    // The same number of bytes is changed in place.
    let edited = edit(&EditOptions::of(&path).set("general.name", "Edited"), &()).unwrap();
    assert!(edited.in_place && edited.written);
    let error = edit(&EditOptions { unset: vec!["none".to_owned()], ..EditOptions::of(&path) }, &());
    assert!(error.unwrap_err().to_string().ends_with("unknown key `none`"));
}

#[test]
fn shards_merge_and_byte_orders_restore_the_file() {
    let sandbox = tempfile::tempdir().unwrap();
    let (file, path) = (copy_of_plain(sandbox.path()), |name: &str| sandbox.path().join(name));
    let options = SplitOptions {
        file: file.clone(),
        prefix: path("part"),
        shards: ShardOptions::tensors(4),
        ..SplitOptions::default()
    };
    let planned = options.plan().unwrap().files();
    let copied = split(&options, &()).unwrap();
    assert!(copied.written && copied.files == planned && planned.len() == 3);
    let shards = copied.files.iter().map(|file| PathBuf::from(&file.path)).collect();
    let (output, original) = (path("merged.gguf"), fs::read(&file).unwrap());
    merge(&MergeOptions { shards, output: output.clone(), ..MergeOptions::default() }, &()).unwrap();
    assert!(fs::read(&output).unwrap() == original);

    let turned = |file: PathBuf, output: PathBuf, order| {
        let options = EndianOptions { file, output, order, ..EndianOptions::default() };
        let json = serde_json::to_string(&options).unwrap();
        assert_eq!(serde_json::from_str::<EndianOptions>(&json).unwrap(), options);
        change_endian(&options, &()).unwrap();
        options.output
    };
    let big = turned(file, path("big.gguf"), Endian::Big);
    assert!(fs::read(&big).unwrap() != original);
    let back = turned(big, path("back.gguf"), Endian::Little);
    assert!(fs::read(back).unwrap() == original);
}
