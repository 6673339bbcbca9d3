//! Models in several files.

use std::{
    fs,
    path::{Path, PathBuf},
};

use gguf_container::{
    Array, CopyPlan, Endian, Error, Metadata, Model, Plan, Ranks, SplitLimits, Value, shard_file_name,
};
use gguf_types::{DType, Problem as _, Shape};

fn golden(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../golden/gguf").join(name)
}

/// The shards of llama-gguf-split have the contents of the unsplit file.
#[test]
fn reference_shards_open_from_either_end() {
    let whole = Model::open(&golden("py-flat.gguf")).unwrap();
    for no in 1..=2 {
        let model = Model::open(&golden(&shard_file_name("split", no, 2))).unwrap();
        assert_eq!(model.shards().len(), 2);
        let names = |model: &Model| -> Vec<String> { model.tensors().map(|(_, t)| t.name.clone()).collect() };
        assert_eq!(names(&model), names(&whole));
        for (file, tensor) in model.tensors() {
            let (whole_file, whole_tensor) = whole.tensor(&tensor.name).unwrap();
            assert_eq!(file.data(tensor).unwrap(), whole_file.data(whole_tensor).unwrap(), "{}", tensor.name);
        }
        assert_eq!(model.get("split.count"), Some(&Value::U16(2)));
        assert_eq!(model.get("value.u8"), whole.get("value.u8"));
        assert_eq!(model.metadata().len(), whole.metadata().len() + 3);
        assert!(model.tensor("none").is_none());
    }
}

fn write(path: &Path, keys: &[(&str, Value)], names: &[&str]) {
    let metadata: Metadata = keys.iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect();
    let tensors = names.iter().map(|name| ((*name).to_owned(), Shape::new(&[4]).unwrap(), DType::I8));
    let plan = Plan::new(&metadata, tensors.collect(), Endian::Little, 32).unwrap();
    fs::write(path, plan.to_bytes(&vec![[7; 4]; names.len()]).unwrap()).unwrap();
}

fn keys(no: u16, count: u16, n_tensors: i32) -> [(&'static str, Value); 3] {
    [
        ("split.no", Value::U16(no)),
        ("split.count", Value::U16(count)),
        ("split.tensors.count", Value::I32(n_tensors)),
    ]
}

#[test]
fn inconsistent_shards_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (one, two) =
        (folder.path().join("m-00001-of-00002.gguf"), folder.path().join("m-00002-of-00002.gguf"));

    write(&one, &keys(0, 2, 3), &["a", "b"]);
    let error = Model::open(&one).unwrap_err();
    assert!(matches!(&error, Error::ShardMissing { path, no: 2, count: 2 } if *path == two), "{error}");
    assert!(error.hint().is_some());

    write(&two, &keys(1, 2, 3), &["c"]);
    assert_eq!(Model::open(&two).unwrap().tensors().count(), 3);

    write(&two, &keys(1, 2, 3), &["c", "d"]);
    let error = Model::open(&one).unwrap_err();
    assert!(matches!(error, Error::ShardTensors { expected: 3, found: 4 }), "{error}");

    write(&two, &keys(1, 2, 3), &["b"]);
    let error = Model::open(&one).unwrap_err();
    assert!(matches!(&error, Error::DuplicateTensor { name } if name == "b"), "{error}");

    write(&two, &keys(0, 2, 3), &["c"]);
    let error = Model::open(&one).unwrap_err();
    assert!(matches!(error, Error::ShardKey { key: "split.no", expected: 1, .. }), "{error}");
    assert!(matches!(Model::open(&two).unwrap_err(), Error::ShardName { no: 1, count: 2, .. }));

    write(&two, &keys(1, 3, 3), &["c"]);
    let error = Model::open(&one).unwrap_err();
    assert!(matches!(error, Error::ShardKey { key: "split.count", expected: 2, .. }), "{error}");

    write(&two, &[], &["c"]);
    let error = Model::open(&one).unwrap_err();
    assert!(matches!(&error, Error::ShardKey { found, .. } if found == "missing"), "{error}");

    fs::write(&two, b"GGUF").unwrap();
    let error = Model::open(&one).unwrap_err();
    assert!(matches!(&error, Error::Shard { path, .. } if *path == two), "{error}");
    assert!(matches!(Model::open(&two).unwrap_err(), Error::Truncated { .. }));

    let renamed = folder.path().join("other.gguf");
    write(&renamed, &keys(0, 2, 3), &["a"]);
    assert!(matches!(Model::open(&renamed).unwrap_err(), Error::ShardName { no: 1, count: 2, .. }));

    write(&one, &keys(0, 2, 3)[1..], &["a"]);
    assert!(matches!(Model::open(&one).unwrap_err(), Error::ShardCount { key: "split.no", .. }));
    write(&one, &[("split.count", Value::Array(Array::U8(vec![2])))], &["a"]);
    assert!(matches!(Model::open(&one).unwrap_err(), Error::ShardCount { key: "split.count", .. }));
    write(&one, &keys(0, 2, -1), &["a"]);
    assert!(matches!(Model::open(&one).unwrap_err(), Error::ShardCount { key: "split.tensors.count", .. }));
    // One shard of one is a complete model under any name.
    write(&renamed, &keys(0, 1, 1), &["a"]);
    assert_eq!(Model::open(&renamed).unwrap().first().tensors().len(), 1);
}

#[test]
fn shards_keep_ranks_on_request() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("video.gguf");
    let shapes =
        [&[6, 2, 1][..], &[], &[2, 2, 1, 3, 4], &[3, 1, 1, 1, 1]].map(|dims| Shape::new(dims).unwrap());
    let tensors = shapes.iter().enumerate().map(|(i, shape)| (format!("t{i}"), *shape, DType::I8));
    let plan = Plan::new(&Metadata::new(), tensors.collect(), Endian::Little, 32).unwrap();
    let data: Vec<_> = shapes.iter().map(|shape| vec![1; shape.n_elems() as usize]).collect();
    fs::write(&path, plan.to_bytes(&data).unwrap()).unwrap();
    let model = Model::open(&path).unwrap();
    let written = |ranks| -> Vec<Vec<u64>> {
        let plans = CopyPlan::split(&model, SplitLimits::default(), ranks).unwrap();
        plans.iter().flat_map(|copy| copy.plan.tensors()).map(|tensor| tensor.shape.dims().to_vec()).collect()
    };
    assert_eq!(written(Ranks::Stored), shapes.map(|shape| shape.dims().to_vec()));
    assert_eq!(written(Ranks::Ggml), [vec![6, 2], vec![], vec![2, 2, 1, 3, 4], vec![3]]);
}
