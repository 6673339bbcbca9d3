//! Compares the tables with the reference's, by checksum, and the lists with a naive restatement of the rule.

use super::*;

/// SHA-256 in hexadecimal.
fn sha256(bytes: impl IntoIterator<Item = u8>) -> String {
    gguf_testkit::sha256(&bytes.into_iter().collect::<Vec<u8>>())
}

/// The sums are printed by `scripts/golden/iq_grids.py` from the reference's `ggml-quants.c`.
#[test]
fn encoder_tables_match_reference() {
    let tables: [(&str, &[u16], &str); 6] = [
        (
            "kgrid_2bit_256",
            &iq2_xxs::CODES,
            "915952ebc4af8ddba8113583ca1316fc818843f7b825bbf1a25ae1c39bf0e16d",
        ),
        (
            "kgrid_2bit_512",
            &iq2_xs::CODES,
            "f66435966ca8d64e9e4a6e3c91e64afcf9015e700ec85962f527283ebae207b9",
        ),
        (
            "kgrid_2bit_1024",
            &iq2_s::CODES,
            "e6e75e121b65e8afa5c1f92b71463cfbe217b83893f438acde22fd5db06a43f7",
        ),
        ("kgrid_1bit_2048", &iq1::CODES, "e9ffebfc997ad6023063a667c0bf4eedd8ebf7f56b3da399cbc7d1b1f7ea52c6"),
        ("kgrid_256", &iq3_xxs::CODES, "c9678803c61b2210fbd8cbbb3f965a835409cd7d88a04d086d236261bd221d11"),
        ("kgrid_512", &iq3_s::CODES, "353274c58dd7d8dc5ee960dc8fc54ff9164eaf2b49206b841cd49415cf393f81"),
    ];
    for (name, codes, expected) in tables {
        assert_eq!(sha256(codes.iter().flat_map(|code| code.to_le_bytes())), expected, "{name}");
    }
}

/// The sums are printed by `scripts/golden/iq_grids.py` from the reference's `ggml-common.h`.
#[test]
fn decoder_tables_match_reference() {
    let flat8 = |points: &[[u8; 8]]| sha256(points.iter().flatten().copied());
    let flat4 = |points: &[[u8; 4]]| sha256(points.iter().flatten().copied());
    let tables = [
        (
            "iq2xxs_grid",
            flat8(&IQ2_XXS_VALUES),
            "05826b5d3e472a3a78f196be62ac78acf81df0f909626e12ab9fa2a5d490dd54",
        ),
        (
            "iq2xs_grid",
            flat8(&IQ2_XS_VALUES),
            "06e47aaca60b4dc1d9b5a3f34540437058a6b142b4d7a59d5ded769b4d1bf1de",
        ),
        (
            "iq2s_grid",
            flat8(&IQ2_S_VALUES),
            "e1aa1473412b0552c2174c30ef22ab4073f6a181b85a17056e8249bd2932fd88",
        ),
        ("iq1s_grid", flat8(&IQ1_VALUES), "07540ffc1aeaf6ad4d97e96b0fcc765aae39671d4ae4a27bbd0e796fde167c6a"),
        (
            "iq3xxs_grid",
            flat4(&IQ3_XXS_VALUES),
            "46e35f5a997efdee6c99ce57854c8a0d4f0ff8ca57e5e8a60c0793ea580acf5d",
        ),
        (
            "iq3s_grid",
            flat4(&IQ3_S_VALUES),
            "bd1af4945a1717c65610b0284e4628b9a1ba3b306fae3a06f6e5f597356e349f",
        ),
        (
            "ksigns_iq2xs",
            sha256((0..128).map(even_signs)),
            "a76742a603f8beca5212ecce0f1f02f11a4887fd2f7c8b15aca0ea3eb3380c31",
        ),
        (
            "kvalues_iq4nl",
            sha256(IQ4_VALUES.iter().map(|&value| value as u8)),
            "61aa47540aa024b5d6ddaa839b84ffe59f3d5a349af5c6c7ffcb5e0474b46163",
        ),
    ];
    for (name, found, expected) in tables {
        assert_eq!(found, expected, "{name}");
    }
}

/// Every list of every codebook, rebuilt by the reference's rule: sort all points by (distance, index) and
/// keep them up to the number of distinct distances.
#[test]
fn neighbor_lists_follow_the_rule() {
    let codebooks = [
        (Codebook::iq2_xxs(), 8, 2, 3, 2),
        (Codebook::iq2_xs(), 8, 2, 3, 2),
        (Codebook::iq2_s(), 8, 2, 3, 1),
        (Codebook::iq1(), 8, 2, 3, 3),
        (Codebook::iq3_xxs(), 4, 3, 8, 2),
        (Codebook::iq3_s(), 4, 3, 8, 3),
    ];
    for (codebook, dims, bits, levels, rank) in codebooks {
        let level = |code: u16, dim: u32| i32::from(code >> (bits * dim)) & ((1 << bits) - 1);
        let mut n_lists = 0;
        for code in 0..=((1u32 << (dims * bits)) - 1) as u16 {
            // A sample of the codes: all take seconds without optimization.
            if code % 7 != 0 || (0..dims).any(|dim| level(code, dim) >= levels) {
                continue;
            }
            let Place::OffGrid(list) = codebook.place(code) else {
                assert!(codebook.codes.contains(&code));
                assert_eq!(codebook.code(codebook.index(code)), code);
                continue;
            };
            assert!(!codebook.codes.contains(&code));
            let mut points: Vec<(i32, usize)> = (codebook.codes.iter().enumerate())
                .map(|(index, &point)| {
                    let distance = (0..dims).map(|dim| (level(code, dim) - level(point, dim)).pow(2)).sum();
                    (distance, index)
                })
                .collect();
            points.sort_unstable();
            let mut distances: Vec<i32> = points.iter().map(|point| point.0).collect();
            distances.dedup();
            let expected: Vec<u16> = (points.iter())
                .filter(|point| point.0 <= distances[rank - 1])
                .map(|&(_, index)| codebook.codes[index])
                .collect();
            assert_eq!(list, expected, "code {code:#x}");
            n_lists += 1;
        }
        assert!(n_lists > 400, "{n_lists} lists");
    }
}
