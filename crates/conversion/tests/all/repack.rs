//! Conversions that keep the values of codes: decoded blocks of the file equal the same checkpoint converted
//! to floats.

use std::{collections::BTreeMap, path::Path};

use gguf_container::File;
use gguf_conversion::{CheckpointInput, Conversion, Repacked, Request, RunOptions, recipes::Reason};
use gguf_quant::Level;
use gguf_types::DType;

fn convert(folder: &Path, recipe: &str, repack: bool, path: &Path) -> Vec<(String, Reason)> {
    let input =
        CheckpointInput::open(crate::folder(folder), &gguf_layout::Options::new(gguf_models::FAMILIES))
            .unwrap();
    let mut request = Request::default();
    request.repack = repack;
    let conversion = Conversion::new(input).recipe(recipe).unwrap().request(request);
    let planned = conversion.plan().unwrap();
    planned.check().unwrap().write(path, &RunOptions::default()).unwrap();
    let [file] = planned.files() else { panic!("one file") };
    file.plan
        .tensors()
        .iter()
        .zip(&file.choices)
        .map(|(tensor, choice)| (tensor.name.clone(), choice.reason))
        .collect()
}

fn decoded(file: &File, name: &str) -> (DType, Vec<f32>) {
    let tensor = file.tensors().iter().find(|tensor| tensor.name == name).unwrap();
    let mut values = vec![f32::NAN; tensor.shape.n_elems() as usize];
    gguf_quant::decode(tensor.dtype, Level::Scalar, file.data(tensor).unwrap(), &mut values).unwrap();
    (tensor.dtype, values)
}

#[test]
fn kept_tensors_match_float_file() {
    use DType::{Q2_0, Q4_0, Q5_0, Q8_0};
    let temporary = tempfile::tempdir().unwrap();
    let all = |dtype| vec![(dtype, 14)];
    for (name, expected) in [
        ("packed-4bit", all(Q4_0)),
        ("packed-2bit-zeros", all(Q4_0)),
        ("packed-8bit", all(Q8_0)),
        ("int8-channel", all(Q8_0)),
        ("gptq-4bit", all(Q5_0)),
        ("gptq-4bit-v2", all(Q5_0)),
        // Groups out of order, groups of half a block, scales that do not fit f16, codes beyond a signed
        // byte.
        ("gptq-4bit-order", vec![]),
        ("packed-4bit-zeros", vec![]),
        ("gptq-4bit-channel", vec![]),
        ("packed-8bit-zeros", vec![]),
    ] {
        let folder = gguf_testkit::form(name);
        let (floats, kept) = (temporary.path().join("f32.gguf"), temporary.path().join("kept.gguf"));
        convert(&folder, "f32", false, &floats);
        let reasons = convert(&folder, "q4_k_m", true, &kept);
        let (floats_file, kept_file) = (File::open(&floats).unwrap(), File::open(&kept).unwrap());
        let mut types: BTreeMap<DType, usize> = BTreeMap::new();
        for (tensor, _) in reasons.iter().filter(|(_, reason)| *reason == Reason::Repacked) {
            let (dtype, values) = decoded(&kept_file, tensor);
            let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect::<Vec<u32>>();
            assert_eq!(bits(&values), bits(&decoded(&floats_file, tensor).1), "{name}: {tensor}");
            assert_ne!(dtype, Q2_0, "zeros keep their signs in all others");
            *types.entry(dtype).or_default() += 1;
        }
        assert_eq!(types.into_iter().collect::<Vec<_>>(), expected, "{name}");
        // Without repacking the file has the recipe's types, and other bytes even if the type is the same.
        for recipe in ["q4_k_m", "q4_0", "q8_0"] {
            let plain = temporary.path().join("plain.gguf");
            let reasons = convert(&folder, recipe, false, &plain);
            assert!(reasons.iter().all(|(_, reason)| *reason != Reason::Repacked));
            std::fs::remove_file(&plain).unwrap();
        }
        std::fs::remove_file(&floats).unwrap();
        std::fs::remove_file(&kept).unwrap();
    }
}

#[test]
fn explicit_types_override_repack() {
    let folder = gguf_testkit::form("packed-4bit");
    let input = CheckpointInput::open(
        crate::folder(folder.as_path()),
        &gguf_layout::Options::new(gguf_models::FAMILIES),
    )
    .unwrap();
    let mut request = Request::default();
    request.repack = true;
    request.overrides.tensor_types =
        vec![gguf_conversion::recipes::TensorType::parse("ffn_down=q6_k").unwrap()];
    let conversion = Conversion::new(input).recipe("q8_0").unwrap().request(request);
    let planned = conversion.plan().unwrap();
    for (tensor, choice) in planned.files()[0].plan.tensors().iter().zip(&planned.files()[0].choices) {
        match choice.reason {
            Reason::TensorType(_) => assert!(tensor.name.contains("ffn_down")),
            Reason::Repacked => assert_eq!(choice.dtype, DType::Q4_0, "{}", tensor.name),
            _ => assert_ne!(choice.dtype, DType::Q4_0, "{}", tensor.name),
        }
    }
    let repacked = conversion.input().repacked().unwrap();
    assert_eq!(repacked.iter().filter(|made| **made == Repacked::Kept(DType::Q4_0)).count(), 14);
    assert!(repacked.contains(&Repacked::Plain));
}

#[test]
fn plain_checkpoint_has_nothing_to_keep() {
    let input = CheckpointInput::open(
        crate::folder(gguf_testkit::checkpoint("llama").as_path()),
        &gguf_layout::Options::new(gguf_models::FAMILIES),
    )
    .unwrap();
    assert!(input.repacked().unwrap().iter().all(|made| *made == Repacked::Plain));
}
