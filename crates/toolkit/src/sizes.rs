//! Parses sizes such as `500M` and `4.2GB`.

/// Parses bytes, or thousands (K), millions (M) or billions (G) of them, with an optional B; KiB, MiB and GiB
/// are multiples of 1024. Fractions such as `4.2GB` are allowed and rounded down, so that a limit is kept.
///
/// # Errors
/// Text that is not a size.
pub fn parse_size(text: &str) -> Result<u64, String> {
    bytes_of(text)
        .filter(|bytes| *bytes > 0)
        .ok_or_else(|| "expected a size, for example 500M or 4.2GB".to_owned())
}

/// Like [`parse_size`], for the memory of a machine: `8` is probably meant as `8GB`.
///
/// # Errors
/// Text that is not a size, and less than a million without a unit.
pub fn parse_memory_size(text: &str) -> Result<u64, String> {
    let bytes = parse_size(text)?;
    if bytes < 1_000_000 && text.ends_with(|last: char| last.is_ascii_digit()) {
        return Err(format!("expected a unit; did you mean {text}GB?"));
    }
    Ok(bytes)
}

fn bytes_of(text: &str) -> Option<u64> {
    let n_digits = text.bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b'.').count();
    let (number, unit) = text.split_at(n_digits);
    let unit: u128 = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kb" => 1000,
        "m" | "mb" => 1_000_000,
        "g" | "gb" => 1_000_000_000,
        "kib" => 1 << 10,
        "mib" => 1 << 20,
        "gib" => 1 << 30,
        _ => return None,
    };
    let (whole, fraction) = match number.split_once('.') {
        // `1.` is probably a mistake.
        Some((_, "")) => return None,
        Some((whole, fraction)) => (whole, fraction),
        None => (number, ""),
    };
    // Up to 18 decimal places, times 2^30, do not overflow.
    let places = u32::try_from(fraction.len()).ok().filter(|places| *places <= 18)?;
    let fraction = if fraction.is_empty() { 0 } else { fraction.parse::<u64>().ok()? };
    let whole = u128::from(whole.parse::<u64>().ok()?) * unit;
    u64::try_from(whole + u128::from(fraction) * unit / 10u128.pow(places)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_parsed() {
        let whole = [("1", 1), ("300K", 300_000), ("500M", 500_000_000), ("2g", 2_000_000_000)];
        let with_b = [("7B", 7), ("16GB", 16_000_000_000), ("2KiB", 2048), ("24GiB", 24 << 30)];
        let parts = [("4.2GB", 4_200_000_000), ("1.5k", 1500), ("0.1234K", 123), ("2.5GiB", 5 << 29)];
        for (text, bytes) in [whole, with_b, parts].concat() {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
        for text in [
            "",
            "M",
            "0",
            "0G",
            "0.4",
            "-1M",
            "1T",
            "99999999999G",
            "GB",
            "1 GB",
            "1Gi",
            "many",
            "1e30",
            ".5G",
            "1.G",
            "1.2.3K",
            "0.0000000000000000001G",
            "NaN",
        ] {
            assert!(parse_size(text).is_err(), "{text}");
        }
        let of_memory =
            [("8GB", true), ("8000000", true), ("1kB", true), ("8B", true), ("8", false), ("7.5", false)];
        for (text, is_size) in of_memory {
            assert_eq!(parse_memory_size(text).is_ok(), is_size, "{text}");
        }
    }
}
