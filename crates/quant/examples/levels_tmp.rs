//! Temporary.
use quant::*;
use tensor::DType;
fn main() {
    let n = 1 << 20;
    let mut st = 1u64;
    let mut rnd = || {
        st = st.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        ((st >> 33) as f32 / (1u64 << 31) as f32 - 0.5) * 2.0
    };
    let mut x: Vec<f32> = (0..n)
        .map(|_| {
            let v = rnd();
            v * v * v
        })
        .collect();
    let w: Vec<f32> = (0..4096).map(|_| rnd().abs() + 0.01).collect();
    // nasty tail
    let plain = std::env::var("PLAIN").is_ok();
    if !plain { for (b, c) in x.chunks_mut(256).enumerate() {
        match b % 41 {
            0 => c.fill(0.0),
            1 => c.fill(1.5),
            2 => {
                c.fill(0.0);
                c[17] = 3.0
            }
            3 => c.iter_mut().for_each(|v| *v *= 1e-42),
            4 => c.iter_mut().for_each(|v| *v *= 1e38),
            5 => c.iter_mut().enumerate().for_each(|(i, v)| *v = if i % 2 == 0 { 1.0 } else { -1.0 }),
            6 => c.fill(-2.0),
            7 => c.iter_mut().enumerate().for_each(|(i, v)| *v = (i as f32 - 128.0) * 0.5),
            8 => c.iter_mut().enumerate().for_each(|(i, v)| *v *= 10f32.powi((i % 60) as i32 - 30)),
            9 => c[..32].fill(0.0),
            10 => c.iter_mut().for_each(|v| *v *= 1e-30),
            _ => (),
        }
    }
    let only = std::env::args().nth(1);
    for c in CODECS {
        if c.encode.is_none() || !c.dtype.is_quantized() {
            continue;
        }
        if let Some(o) = &only
            && c.dtype.name() != o
        {
            continue;
        }
        for weights in [None, Some(&w[..])] {
            if c.needs_weights && weights.is_none() {
                continue;
            }
            let mut want = vec![];
            for l in Level::available() {
                let mut out = vec![0u8; n / c.dtype.block_elems() as usize * c.dtype.block_bytes() as usize];
                let mut best = f64::MAX;
                for _ in 0..5 {
                    let t = std::time::Instant::now();
                    encode(c.dtype, l, Rows { values: &x, row_elems: 4096, weights }, &mut out).unwrap();
                    best = best.min(t.elapsed().as_secs_f64() * 1e9 / n as f64);
                }
                if l == Level::Scalar {
                    want = out.clone();
                }
                let bb = c.dtype.block_bytes() as usize;
                let bad: Vec<_> = out
                    .chunks(bb)
                    .zip(want.chunks(bb))
                    .enumerate()
                    .filter(|(_, (a, b))| a != b)
                    .map(|(i, _)| i)
                    .collect();
                println!(
                    "{:8} {:6} {:7} {best:8.2} ns/elem bad blocks {} {:?}",
                    c.dtype,
                    if weights.is_some() { "weight" } else { "" },
                    l.name(),
                    bad.len(),
                    bad.iter()
                        .take(8)
                        .map(|i| (i * c.dtype.block_elems() as usize / 256) % 41)
                        .collect::<Vec<_>>()
                );
            }
        }
    }
    let _ = DType::F32;
}
