//! What one measured divergence says of other types.

/// By what the divergence of a matrix falls with each bit that its weights have more: 3.6 to 3.9 were measured. An error halves
/// with a bit, and the divergence goes by its square.
pub const FALL_A_BIT: f64 = 3.75;

/// The divergence of a matrix at a type, by the one measured at another.
///
/// `errors` are the mean squares of its output's error at the wanted type and at the measured one, where both are known: for
/// small errors the divergence is a quadratic form of them. Else it goes by the law, bits of a weight each.
pub fn predicted(measured: f64, errors: Option<(f64, f64)>, (bits, measured_bits): (f64, f64)) -> f64 {
    // A probe of a matrix that hardly matters can come out below zero by rounding.
    let measured = measured.max(0.0);
    match errors.filter(|(wanted, probed)| wanted.is_finite() && *probed > 0.0) {
        Some((wanted, probed)) => measured * wanted / probed,
        // Not the platform's: costs choose types, and types are bytes of a file.
        None => measured * libm::pow(FALL_A_BIT, measured_bits - bits),
    }
}
