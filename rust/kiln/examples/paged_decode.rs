// SPDX-License-Identifier: MIT
//! Decoding through the paged operators: requests of different lengths share the pages of one cache; each step appends a token of
//! every request, its keys turned by their positions, plans how the keys are divided, and attends. The last step's result is
//! compared with a plain loop.
//!
//!     cargo run --example paged_decode cpu            (or: cuda:0)

use kiln::{sys, Device, Operators, PagedAppendArgs, PagedAttentionArgs, PagedPlan, PagedPlanArgs, PagedSlotsArgs};
use kiln::{Stream, Tensor, Type, Workspace};

const B: usize = 3;
const H: usize = 8;
const HKV: usize = 2;
const D: usize = 64;
const PAGE: usize = 16;
const PAGES_EACH: usize = 4;
const PAGES: usize = B * PAGES_EACH;

/// Numbers of -1 to 1 in steps that bf16 holds.
struct Random(u64);

impl Random {
    fn next(&mut self) -> f32 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        ((self.0 >> 33) % 257) as f32 / 128.0 - 1.0
    }

    fn bf16(&mut self, n: usize) -> Vec<u16> {
        (0..n).map(|_| (self.next().to_bits() >> 16) as u16).collect()
    }
}

fn wide(x: u16) -> f64 {
    f64::from(f32::from_bits(u32::from(x) << 16))
}

struct Step {
    pages: Vec<i32>,
    lengths: Vec<i32>,
    q: Vec<u16>,
    k: Vec<u16>,
    v: Vec<u16>,
    out: Vec<u16>,
}

/// Of head h of request b, in double precision.
fn largest_error(s: &Step, b: usize, h: usize) -> f64 {
    let at = |t: usize| ((s.pages[b * PAGES_EACH + t / PAGE] as usize * PAGE + t % PAGE) * HKV + h / (H / HKV)) * D;
    let row = (b * H + h) * D;
    let weight = |t: usize| ((0..D).map(|d| wide(s.q[row + d]) * wide(s.k[at(t) + d])).sum::<f64>() / (D as f64).sqrt()).exp();
    let w: Vec<f64> = (0..s.lengths[b] as usize).map(weight).collect();
    let sum: f64 = w.iter().sum();
    (0..D)
        .map(|d| {
            let expected: f64 = w.iter().enumerate().map(|(t, w)| w / sum * wide(s.v[at(t) + d])).sum();
            (expected - wide(s.out[row + d])).abs()
        })
        .fold(0.0, f64::max)
}

fn decode(name: &str) -> kiln::Result<bool> {
    let device = Device::open(name)?;
    let ops = Operators::open(&device)?;
    let stream = Stream::open(&device)?;
    let mut scratch = Workspace::new(&device);
    let mut plan = PagedPlan::new();
    let mut random = Random(1);
    let cache = [PAGES as i64, PAGE as i64, HKV as i64, D as i64];
    let k = Tensor::from_slice(&device, Type::BF16, &cache, &random.bf16(PAGES * PAGE * HKV * D))?;
    let v = Tensor::from_slice(&device, Type::BF16, &cache, &random.bf16(PAGES * PAGE * HKV * D))?;
    let pages: Vec<i32> = (0..PAGES).map(|i| ((i * 7 + 3) % PAGES) as i32).collect();
    let table = Tensor::from_slice(&device, Type::I32, &[B as i64, PAGES_EACH as i64], &pages)?;
    let slots = Tensor::new(&device, Type::I32, &[B as i64])?;
    let positions = Tensor::new(&device, Type::I32, &[B as i64])?;
    let out = Tensor::new(&device, Type::BF16, &[B as i64, H as i64, D as i64])?;
    let rotary = sys::kiln_rotary { style: sys::KILN_ROTARY_HALVES, base: 10000.0, ..Default::default() };
    let mut lengths = vec![3, 30, 17];
    let mut last = Vec::new();
    for _ in 0..5 {
        lengths.iter_mut().for_each(|length| *length += 1);
        let now = Tensor::from_slice(&device, Type::I32, &[B as i64], &lengths)?;
        last = random.bf16(B * H * D); // of a model: its projections
        let q = Tensor::from_slice(&device, Type::BF16, &[B as i64, H as i64, D as i64], &last)?;
        let heads = [B as i64, HKV as i64, D as i64];
        let keys = Tensor::from_slice(&device, Type::BF16, &heads, &random.bf16(B * HKV * D))?;
        let values = Tensor::from_slice(&device, Type::BF16, &heads, &random.bf16(B * HKV * D))?;
        ops.paged_slots(
            &stream,
            &PagedSlotsArgs {
                table: Some(&table),
                lengths: Some(&now),
                slots: Some(&slots),
                positions: Some(&positions),
                page_size: PAGE as i64,
                ..Default::default()
            },
        )?;
        ops.paged_append(
            &stream,
            &PagedAppendArgs {
                keys: Some(&keys),
                values: Some(&values),
                slots: Some(&slots),
                positions: Some(&positions),
                k: Some(&k),
                v: Some(&v),
                rotary: Some(&rotary),
                ..Default::default()
            },
        )?;
        // One for all layers of a step; here is one layer.
        let batch = PagedPlanArgs {
            lengths: Some(&now),
            rows: B as i64,
            heads: H as i64,
            key_heads: HKV as i64,
            size: D as i64,
            causal: true,
            ..Default::default()
        };
        ops.paged_plan_make(&stream, &batch, &mut plan)?;
        let attention = PagedAttentionArgs {
            plan: Some(&plan),
            q: Some(&q),
            k: Some(&k),
            v: Some(&v),
            table: Some(&table),
            lengths: Some(&now),
            out: Some(&out),
            causal: true,
            ..Default::default()
        };
        ops.paged_attention(&stream, &mut scratch, &attention)?;
        // q, keys, values and the lengths go here: the stream keeps their memory until its work is done.
    }
    stream.wait()?;
    let step = Step { pages, lengths, q: last, k: k.download()?, v: v.download()?, out: out.download()? };
    let worst = (0..B * H).map(|i| largest_error(&step, i / H, i % H)).fold(0.0, f64::max);
    let right = worst < 1e-2;
    let verdict = if right { "as it should be" } else { "WRONG" };
    println!("5 steps of {} requests on {}: off by {:.2e} at most: {}", B, device.description(), worst, verdict);
    Ok(right)
}

fn main() {
    let name = std::env::args().nth(1).unwrap_or_else(|| "cpu".into());
    match decode(&name) {
        Ok(right) => std::process::exit(i32::from(!right)),
        Err(error) => {
            eprintln!("{:?}: {}", error.status, error);
            std::process::exit(1);
        }
    }
}
