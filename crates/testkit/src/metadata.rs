//! Mutated GGUF files: changed keys and values, unchanged tensors.

use gguf_container::{Array, Endian, File, Metadata, Plan, Value};

use crate::{Draw, NASTY, mutate};

/// A file with up to three changed keys; `None` if it cannot be written or its data is missing.
pub fn mutated_gguf(file: &File, draw: &mut Draw) -> Option<Vec<u8>> {
    let mut metadata = file.metadata().clone();
    for _ in 0..=draw.below(2) {
        mutate_metadata(&mut metadata, draw);
    }
    let tensors = file.tensors().iter().map(|t| (t.name.clone(), t.shape, t.dtype)).collect();
    let data: Result<Vec<&[u8]>, _> = file.tensors().iter().map(|t| file.data(t)).collect();
    let plan = Plan::new(&metadata, tensors, Endian::Little, 32).ok()?;
    plan.to_bytes(&data.ok()?).ok()
}

/// Changes a key, removes it or changes its type.
pub fn mutate_metadata(metadata: &mut Metadata, draw: &mut Draw) {
    let at = draw.below(metadata.len());
    let Some((key, value)) = metadata.iter_mut().nth(at) else { return };
    let key = key.to_owned();
    let nasty = *draw.of(&NASTY);
    match draw.below(8) {
        0 => drop(metadata.remove(&key)),
        1 => *value = Value::U32(nasty as u32),
        2 => *value = Value::F32([0.0, -1.0, f32::NAN, f32::INFINITY, 1e-30][draw.below(5)]),
        3 => *value = Value::from(["", "llama", "yarn", "gpt2", "none"][draw.below(5)]),
        4 => *value = Value::Array(Array::U32(vec![nasty as u32; draw.below(4)])),
        _ => match value {
            Value::U32(number) if draw.below(2) == 0 => *number = draw.below(40) as u32,
            Value::U32(number) => *number = nasty as u32,
            Value::I32(number) => *number = nasty as i32,
            Value::U64(number) => *number = nasty,
            Value::F32(number) => *number *= -1e20,
            Value::Bool(is) => *is = !*is,
            Value::String(text) => mutate(text, draw),
            Value::Array(Array::String(items)) if !items.is_empty() => {
                let mut texts = items.to_vecs();
                let at = draw.below(texts.len());
                mutate(&mut texts[at], draw);
                *items = texts.into();
            }
            Value::Array(Array::I32(items)) if !items.is_empty() => {
                let at = draw.below(items.len());
                items[at] = nasty as i32;
            }
            Value::Array(Array::U64(items)) if !items.is_empty() => {
                let at = draw.below(items.len());
                items[at] = nasty;
            }
            Value::Array(Array::F32(items)) if !items.is_empty() => {
                let at = draw.below(items.len());
                items[at] = f32::NAN;
            }
            _ => drop(metadata.remove(&key)),
        },
    }
}
