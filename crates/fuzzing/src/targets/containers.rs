//! GGUF files, and inputs of the evaluation.

use gguf_container::{Edit, File, Plan, Slack, swap_blocks};
use gguf_runtime::{
    Model, Sequence,
    audio::Sound,
    choice::{HellaSwag, MultipleChoice, Winogrande},
    logits_file::LogitsFile,
    vision::Picture,
};
use gguf_tokenizer::{Reading, Tokenizer};
use gguf_toolkit::{
    hub::HubOptions,
    verify::{VerifyOptions, Which, verify},
};

use crate::{pieces, scratch::with_files, seeds};

/// Maximum alignment of files that are written again: padding uses memory legitimately.
const MAX_ALIGNMENT: u32 = 4096;

pub(super) fn gguf(bytes: &[u8]) -> bool {
    let Ok(file) = File::parse(bytes.to_vec()) else { return false };
    gguf_container::check(&file);
    for tensor in file.tensors() {
        let mut data = file.data(tensor).expect("tensors of a file lie in it").to_vec();
        gguf_quant::first_bad_block(tensor.dtype, &data);
        gguf_quant::first_large_value(tensor.dtype, gguf_quant::Level::detect(), &data, 1e4);
        swap_blocks(tensor.dtype, &mut data);
    }
    if file.alignment() > MAX_ALIGNMENT {
        return true;
    }
    // The reader accepts keys that the writer refuses.
    if let Ok(edit) = Edit::new(&file, file.metadata().clone(), Slack::Use) {
        edit.is_in_place();
    }
    let tensors = file.tensors().iter().map(|t| (t.name.clone(), t.shape, t.dtype)).collect();
    if let Ok(plan) = Plan::new(file.metadata(), tensors, file.endian(), file.alignment()) {
        let data: Vec<&[u8]> = file.tensors().iter().filter_map(|t| file.data(t).ok()).collect();
        let again = plan.to_bytes(&data).and_then(File::parse).expect("a planned file is readable");
        assert_eq!(again.tensors().len(), file.tensors().len(), "tensors of a file that is written again");
    }
    true
}

pub(super) fn gguf_shards(bytes: &[u8]) -> bool {
    let files = pieces::split(bytes);
    let names = ["x-00001-of-00002.gguf", "x-00002-of-00002.gguf"];
    let files: Vec<(&str, &[u8])> =
        names.into_iter().zip(files.into_iter().map(|(_, bytes)| bytes)).collect();
    with_files("gguf_shards", &files, |folder| {
        let Ok(model) = gguf_container::Model::open(&folder.join(names[0])) else { return false };
        model.tensors().all(|(file, tensor)| file.data(tensor).is_ok())
    })
}

pub(super) fn tokenizer_keys(bytes: &[u8]) -> bool {
    let Ok(file) = File::parse(bytes.to_vec()) else { return false };
    gguf_tokenizer::check(file.metadata());
    let Ok(tokenizer) = Tokenizer::from_gguf(file.metadata()).encoder(Reading::LlamaCpp) else {
        return false;
    };
    if let Ok(ids) = tokenizer.encode("Ein  \u{20ac} \u{0301}<s>\n123456", true, true) {
        let _ = tokenizer.decode(&ids);
    }
    true
}

pub(super) fn model(bytes: &[u8]) -> bool {
    with_files("model", &[("x.gguf", bytes)], |folder| {
        let options =
            gguf_runtime::Options { threads: Some(1), ..gguf_runtime::Options::new(gguf_models::GRAPHS) };
        let Ok(model) = Model::open(&folder.join("x.gguf"), &options) else { return false };
        let Ok(hidden) = model.run(&[Sequence::new(&[1, 5, 2, 7, 3])], None) else { return false };
        let mut logits = vec![0.0; hidden.n_rows() * model.n_vocab()];
        model.logits(&hidden, 0..hidden.n_rows(), None, &mut logits).is_ok()
    })
}

pub(super) fn adapter(bytes: &[u8]) -> bool {
    let base = seeds::adapter_base();
    with_files("adapter", &[("adapter.gguf", bytes), ("base.gguf", &base)], |folder| {
        let [file, base] = ["adapter.gguf", "base.gguf"].map(|name| folder.join(name));
        let model = gguf_container::Model::open(&base).expect("the base is a good file");
        let is_adapter = gguf_container::Adapter::open(&file).inspect(|adapter| {
            let _ = adapter.check(&model);
            for (_, tensor) in model.tensors() {
                let _ = adapter.pair(&tensor.name, tensor.shape);
            }
        });
        let options = VerifyOptions {
            file,
            against: Some(base),
            only: vec![Which::Architecture, Which::Source],
            ..VerifyOptions::default()
        };
        let _ = verify(&options, &HubOptions::default(), &());
        is_adapter.is_ok()
    })
}

pub(super) fn diffusion(bytes: &[u8]) -> bool {
    with_files("diffusion", &[("x.gguf", bytes)], |folder| {
        let file = folder.join("x.gguf");
        let only = vec![Which::Structure, Which::Loader, Which::Architecture, Which::FileType];
        let options = VerifyOptions { file: file.clone(), only, ..VerifyOptions::default() };
        let _ = verify(&options, &HubOptions::default(), &());
        let Ok(model) = gguf_container::Model::open(&file) else { return false };
        let shapes = model.tensors().map(|(_, tensor)| (tensor.name.as_str(), tensor.shape));
        let ranks = gguf_models::FAMILIES.ranks(model.metadata(), shapes);
        let limits = gguf_container::SplitLimits { max_tensors: Some(2), ..Default::default() };
        let _ = gguf_container::CopyPlan::split(&model, limits, ranks);
        let planned = ["q4_k_m", "iq4_xs", "copy"].map(|recipe| {
            let conversion = gguf_conversion::Conversion::open_gguf(gguf_models::FAMILIES, &file);
            let conversion = conversion.and_then(|conversion| conversion.recipe(recipe)).expect("a model");
            conversion.plan().is_ok_and(|planned| planned.files()[0].choices.len() == model.tensors().count())
        });
        planned == [true; 3]
    })
}

pub(super) fn picture(bytes: &[u8]) -> bool {
    Picture::read(bytes).is_ok_and(|picture| picture.pixels().len() == 3 * picture.width() * picture.height())
}

pub(super) fn sound(bytes: &[u8]) -> bool {
    Sound::read(bytes.to_vec()).is_ok_and(|sound| sound.samples().iter().all(|sample| sample.is_finite()))
}

pub(super) fn imatrix(bytes: &[u8]) -> bool {
    let Ok(sums) = gguf_imatrix::Sums::parse(bytes.to_vec()) else { return false };
    let mut twice = sums.clone().in_tokens(512);
    let _ = twice.add(&sums.clone().in_tokens(512));
    let _ = twice.to_bytes(gguf_imatrix::Format::Legacy);
    true
}

pub(super) fn logits(bytes: &[u8]) -> bool {
    let Ok(file) = LogitsFile::parse(bytes.to_vec()) else { return false };
    let layout = file.layout();
    let _ = file.tokens();
    if layout.n_chunks > 0 && layout.n_positions() > 0 {
        file.position(layout.n_chunks - 1, layout.n_positions() - 1).decode();
    }
    true
}

pub(super) fn tasks(bytes: &[u8]) -> bool {
    let n_tasks = bytes.len() % 9;
    Winogrande::parse(bytes, n_tasks);
    HellaSwag::parse(bytes, n_tasks).is_ok() | MultipleChoice::parse(bytes, n_tasks).is_ok()
}
