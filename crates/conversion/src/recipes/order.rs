//! The reference's order of processing and writing tensors.

use std::cmp::Ordering;

/// Layer number in a tensor's name, parsed like `sscanf(name, "blk.%d.")`: white space and a sign may precede
/// the digits, and anything may follow them.
pub fn layer_of(name: &str) -> Option<i64> {
    let number = name.strip_prefix("blk.")?.trim_start_matches([' ', '\t', '\n', '\r', '\x0b', '\x0c']);
    let (sign, digits) = match number.as_bytes().first()? {
        b'-' => (-1, &number[1..]),
        b'+' => (1, &number[1..]),
        _ => (1, number),
    };
    // sscanf leaves the variable unchanged if there are no digits; such a name has no layer.
    let mut digits = digits.bytes().take_while(u8::is_ascii_digit).peekable();
    digits.peek()?;
    let value =
        // A number that overflows is undefined in C; here it saturates.
        digits.fold(0i64, |value, digit| value.saturating_mul(10).saturating_add(i64::from(digit - b'0')));
    Some(sign * value)
}

/// Compares names in the reference's order: names without layer first, then by layer, then by bytes.
///
/// Source: `llama_model_loader::weight_name_comparer`, `src/llama-model-loader.h`.
pub fn compare_names(a: &str, b: &str) -> Ordering {
    let layer = |name| layer_of(name).unwrap_or(-1);
    layer(a).cmp(&layer(b)).then_with(|| a.as_bytes().cmp(b.as_bytes()))
}

/// Order of the reference's output: `result[i]` is the index in `names` of the `i`-th tensor that it
/// processes and writes.
pub fn reference_order(names: &[&str]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..names.len()).collect();
    order.sort_by(|&a, &b| compare_names(names[a], names[b]));
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layer_numbers_are_parsed() {
        for (name, layer) in [
            ("blk.0.attn_q.weight", Some(0)),
            ("blk.12x", Some(12)),
            ("blk. -3.x", Some(-3)),
            ("blk.x", None),
            ("blk.", None),
            ("blk.-", None),
            ("v.blk.1.attn_q.weight", None),
            ("output.weight", None),
            ("blk.99999999999999999999.x", Some(i64::MAX)),
        ] {
            assert_eq!(layer_of(name), layer, "{name}");
        }
    }

    #[test]
    fn names_sort_by_layer_then_bytes() {
        let names =
            ["blk.10.a", "blk.2.b", "token_embd.weight", "blk.2.a", "output.weight", "rope_freqs.weight"];
        let sorted: Vec<&str> = reference_order(&names).into_iter().map(|i| names[i]).collect();
        assert_eq!(
            sorted,
            ["output.weight", "rope_freqs.weight", "token_embd.weight", "blk.2.a", "blk.2.b", "blk.10.a"]
        );
    }
}
