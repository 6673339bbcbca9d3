//! Row encoders: the blocks they receive, and the resulting files.

use std::{error::Error as StdError, fs, num::NonZeroUsize, path::Path};

use gguf_conversion::{Conversion, EncodedRows, Error, Origin, Request, RowEncoder, RunOptions};
use gguf_quant::Level;
use gguf_types::DType;

/// Writes the number of each row into its last byte, for matrices whose names contain this.
#[derive(Debug)]
struct Marks {
    part: &'static str,
    fingerprint: u64,
    fails_at: Option<u64>,
}

impl RowEncoder for Marks {
    fn fingerprint(&self) -> u64 {
        self.fingerprint
    }

    fn applies_to(&self, tensor: &str, dtype: DType) -> bool {
        tensor.contains(self.part) && dtype == DType::Q4_K
    }

    fn encode(
        &self,
        rows: &EncodedRows<'_>,
        blocks: &mut [u8],
    ) -> Result<(), Box<dyn StdError + Send + Sync>> {
        let n_rows = (rows.rows.end - rows.rows.start) as usize;
        assert_eq!((rows.row_elems, rows.values.len()), (256, 256 * n_rows));
        // The blocks are the codec's encoding of these values.
        let mut expected = vec![0; blocks.len()];
        let of_codec =
            gguf_quant::Rows { values: rows.values, row_elems: rows.row_elems, weights: rows.weights };
        gguf_quant::encode(rows.dtype, Level::from_name("scalar").unwrap(), of_codec, &mut expected).unwrap();
        assert_eq!(expected, blocks);
        for (number, row) in rows.rows.clone().zip(blocks.chunks_mut(144)) {
            if self.fails_at == Some(number) {
                return Err(format!("row {number} is not to be had").into());
            }
            row[143] = number as u8;
        }
        Ok(())
    }
}

fn marks(part: &'static str) -> Marks {
    Marks { part, fingerprint: 7, fails_at: None }
}

/// A file of these types, written with an encoder.
fn made(
    encoder: Option<&Marks>,
    types: &[&str],
    threads: usize,
    folder: &Path,
) -> Result<Vec<Vec<u8>>, Error> {
    let mut request = Request::default();
    request.encoder = encoder.map(|encoder| encoder as &dyn RowEncoder);
    let mut conversion =
        Conversion::open(gguf_models::FAMILIES, gguf_testkit::checkpoint("llama"))?.request(request);
    for name in types {
        conversion = conversion.recipe(name)?;
    }
    let planned = conversion.plan()?;
    let options = RunOptions::default().threads(NonZeroUsize::new(threads));
    let paths = planned.check()?.write(folder.join("{ftype}"), &options)?;
    let files = paths.iter().map(|path| fs::read(path).unwrap()).collect();
    paths.iter().for_each(|path| fs::remove_file(path).unwrap());
    Ok(files)
}

#[test]
fn encoder_changes_only_selected_rows() {
    let folder = tempfile::tempdir().unwrap();
    let plain = made(None, &["q4_k_s", "q8_0"], 1, folder.path()).unwrap();
    for threads in [1, 3] {
        let marked = made(Some(&marks("ffn_up")), &["q4_k_s", "q8_0"], threads, folder.path()).unwrap();
        assert!(marked[1] == plain[1], "a type that it does not want");
        let path = folder.path().join("plain");
        fs::write(&path, &plain[0]).unwrap();
        let model = gguf_container::Model::open(&path).unwrap();
        let mut expected = plain[0].clone();
        for (file, info) in model.tensors().filter(|(_, info)| info.name.contains("ffn_up")) {
            let start = file.range(info).unwrap().start;
            for row in 0..info.shape.dim(1) as usize {
                expected[start + 144 * row + 143] = row as u8;
            }
        }
        assert!(expected != plain[0] && marked[0] == expected, "{threads} threads");
    }
    // The encoder's fingerprint is part of the run's.
    let fingerprint = |encoder: Option<&Marks>| {
        let mut request = Request::default();
        request.encoder = encoder.map(|encoder| encoder as &dyn RowEncoder);
        let conversion = Conversion::open(gguf_models::FAMILIES, gguf_testkit::checkpoint("llama"))
            .unwrap()
            .request(request);
        let conversion = conversion.recipe("q4_k_s").unwrap();
        let planned = conversion.plan().unwrap();
        let checked = planned.check().unwrap();
        let origin = Origin {
            program: &|| "test".to_owned(),
            options: Vec::new(),
            permissions: Vec::new(),
            inputs: Vec::new(),
        };
        checked.fingerprint(&[folder.path().join("x")], &origin)
    };
    let none = fingerprint(None);
    let seven = fingerprint(Some(&marks("ffn_up")));
    let eight = fingerprint(Some(&Marks { fingerprint: 8, ..marks("ffn_up") }));
    let other = "the plan of the tensors changed";
    assert_eq!(
        (seven.differences(&none), seven.differences(&eight)),
        (vec![other.into()], vec![other.into()])
    );
    let wants_none = fingerprint(Some(&marks("nothing of this name")));
    assert_eq!(wants_none, none);
}

#[test]
fn encoder_failure_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let failing = Marks { fails_at: Some(17), ..marks("blk.1.ffn_up") };
    let error = made(Some(&failing), &["q4_k_s"], 2, folder.path()).unwrap_err();
    assert!(matches!(&error, Error::RowEncoder { tensor, .. } if tensor == "blk.1.ffn_up.weight"), "{error}");
    assert_eq!(error.to_string(), "tensor `blk.1.ffn_up.weight`: row 17 is not to be had");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}
