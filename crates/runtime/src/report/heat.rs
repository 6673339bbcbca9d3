//! Errors by layer and kind of tensor as pictures with a common scale.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::{FileReport, layer_and_kind};
use crate::{stats::fixed, tensor_error::TensorError};

/// Pictures of all files, and the ends of their scale.
#[derive(Serialize)]
pub(super) struct HeatMaps {
    /// Signal-to-noise ratios of the palest and of the full colour.
    highest: String,
    lowest: String,
    maps: Vec<Heat>,
}

/// Errors of a file by layer, across, and kind of tensor, down.
#[derive(Serialize)]
struct Heat {
    /// Index of the file.
    file: usize,
    width: f64,
    height: f64,
    /// Right end of the names.
    left: f64,
    kinds: Vec<Label>,
    layers: Vec<Label>,
    cells: Vec<Cell>,
}

#[derive(Serialize)]
struct Label {
    at: f64,
    text: String,
}

#[derive(Serialize)]
struct Cell {
    x: f64,
    y: f64,
    width: f64,
    /// From 0 (little error) to 100.
    strength: u32,
    title: String,
}

/// Signal-to-noise ratios, in decibels, from the lowest to the highest.
#[derive(Clone, Copy)]
struct Scale {
    lowest: f64,
    highest: f64,
}

impl Scale {
    /// The lowest ratio has the full colour, the highest a pale one that is still seen. The ratio is a logarithm already.
    fn strength(self, snr: f64) -> u32 {
        const PALEST: f64 = 8.0;
        let width = self.highest - self.lowest;
        let place = if width > 0.0 { (self.highest - snr) / width } else { 0.5 };
        (PALEST + place * (100.0 - PALEST)).round() as u32
    }
}

pub(super) fn decibels(snr: Option<f64>) -> String {
    snr.map_or("exact".to_owned(), |snr| format!("{} dB", fixed(snr, 1)))
}

/// A tensor that differs from that of the base.
struct Noisy<'a> {
    layer: u32,
    kind: &'a str,
    snr: f64,
    tensor: &'a TensorError,
}

/// Tensors of layers. Those without an error have no ratio.
fn noisy(file: &FileReport) -> Vec<Noisy<'_>> {
    let tensors = file.tensors.iter().flat_map(|found| &found.tensors);
    let noisy = tensors.filter_map(|tensor| {
        let (layer, kind) = layer_and_kind(&tensor.name);
        Some(Noisy { layer: layer?, kind, snr: tensor.error.snr_db()?, tensor })
    });
    noisy.collect()
}

/// Maps of the files that have errors of tensors; `None` without such files.
pub(super) fn heat_maps(files: &[FileReport]) -> Option<HeatMaps> {
    let all: Vec<Vec<Noisy<'_>>> = files.iter().map(noisy).collect();
    let ratios = || all.iter().flatten().map(|noisy| noisy.snr);
    let scale = Scale { lowest: ratios().reduce(f64::min)?, highest: ratios().reduce(f64::max)? };
    let maps = all.iter().enumerate().filter(|(_, noisy)| !noisy.is_empty());
    Some(HeatMaps {
        highest: decibels(Some(scale.highest)),
        lowest: decibels(Some(scale.lowest)),
        maps: maps.map(|(file, noisy)| heat(file, noisy, scale)).collect(),
    })
}

fn heat(file: usize, noisy: &[Noisy<'_>], scale: Scale) -> Heat {
    const LEFT: f64 = 110.0;
    const WIDTH: f64 = 250.0;
    const ROW: f64 = 14.0;
    let mut kinds: BTreeMap<&str, Vec<&Noisy<'_>>> = BTreeMap::new();
    let mut layers = BTreeSet::new();
    for noisy in noisy {
        kinds.entry(noisy.kind).or_default().push(noisy);
        layers.insert(noisy.layer);
    }
    let n_layers = layers.last().map_or(0, |last| *last as usize + 1);
    let width = WIDTH / n_layers.max(1) as f64;
    // Eight labels at most fit under the cells.
    let every = n_layers.div_ceil(8).max(1);
    let (mut cells, mut labels) = (Vec::new(), Vec::new());
    for (row, (kind, noisy)) in kinds.iter().enumerate() {
        let y = row as f64 * ROW;
        labels.push(Label { at: y + ROW * 0.75, text: (*kind).to_owned() });
        cells.extend(noisy.iter().map(|Noisy { layer, snr, tensor, .. }| Cell {
            x: ((LEFT + f64::from(*layer) * width) * 10.0).round() / 10.0,
            y,
            width: (width * 10.0).round() / 10.0,
            strength: scale.strength(*snr),
            title: format!("{} ({}): {}", tensor.name, tensor.dtype, decibels(Some(*snr))),
        }));
    }
    let at = |layer: usize| LEFT + (layer as f64 + 0.5) * width;
    let layers = (0..n_layers).step_by(every).map(|layer| Label { at: at(layer), text: layer.to_string() });
    Heat {
        file,
        width: LEFT + WIDTH + 10.0,
        height: kinds.len() as f64 * ROW,
        left: LEFT - 6.0,
        kinds: labels,
        layers: layers.collect(),
        cells,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_span_the_ratios_of_the_data() {
        let scale = Scale { lowest: 21.0, highest: 23.0 };
        assert_eq!([23.0, 22.0, 21.0].map(|snr| scale.strength(snr)), [8, 54, 100]);
        assert_eq!(Scale { lowest: 21.0, highest: 21.0 }.strength(21.0), 54);
    }
}
