// SPDX-License-Identifier: MIT
//! Kernels, tensors and failures.
use kiln::{Arg, Device, Event, Kernel, MlaPlan, MlaPlanArgs, NormArgs, Operators, PagedAttentionArgs, PagedPlan, PagedPlanArgs};
use kiln::{Program, Status, Stream, Tensor, Type, Workspace};

const SOURCE: &str = "
kernel scale(in f32 X[N], optional in f32 B[N], out f32 Y[N], f32 a)
{
    grid (n : ceildiv(N, 64));
    fragment f32 x[64] = X[n*64 +: 64];
    forall (i : 64) x[i] = x[i] * a + (present(B) ? B[n*64 + i] : 0);
    Y[n*64 +: 64] = x;
}
operator twice(in f32 X[N], out f32 Y[N], f32 a)
{
    temp f32 T[N];
    scale(X, none, T, a);
    scale(T, none, Y, a);
}
";

fn program() -> Program {
    Program::from_text("scale.tile", SOURCE).unwrap()
}

#[test]
fn kernels_run() {
    let device = Device::open("cpu").unwrap();
    let x = Tensor::from_slice(&device, Type::F32, &[4], &[1.0f32, 2.0, 3.0, 4.0]).unwrap();
    let y = Tensor::new(&device, Type::F32, &[4]).unwrap();
    let stream = Stream::open(&device).unwrap();
    let kernel = Kernel::build(&device, &program(), "scale", "B=none").unwrap(); // the program goes
    kernel.launch(&stream, &[Arg::Tensor(&x), Arg::None, Arg::Tensor(&y), Arg::Float(2.5)]).unwrap();
    stream.wait().unwrap();
    assert_eq!(y.download::<f32>().unwrap(), [2.5, 5.0, 7.5, 10.0]);
    assert!(kernel.source().contains("scale"));

    let (begin, end) = (Event::new(&device).unwrap(), Event::new(&device).unwrap());
    let twice = Kernel::build(&device, &program(), "twice", "").unwrap();
    let mut scratch = Workspace::new(&device);
    begin.record(&stream).unwrap();
    twice.launch_with(&stream, &mut scratch, &[Arg::Tensor(&x), Arg::Tensor(&y), Arg::Int(3)]).unwrap();
    end.record(&stream).unwrap();
    assert!(begin.milliseconds_to(&end).unwrap() >= 0.0);
    assert_eq!(y.download::<f32>().unwrap(), [9.0, 18.0, 27.0, 36.0]);
    assert!(scratch.bytes() >= 16);
}

#[test]
fn memory_goes_with_the_last_tensor() {
    let device = Device::open("cpu").unwrap();
    let part = Tensor::from_slice(&device, Type::I32, &[2, 3], &[0i32, 1, 2, 3, 4, 5]).unwrap().slice(0, 1, 1).unwrap();
    assert_eq!(part.download::<i32>().unwrap(), [3, 4, 5]);
    let column = part.reshaped(&[3, 1]).unwrap().slice(0, 1, 2).unwrap();
    assert_eq!((column.shape(), column.download::<i32>().unwrap()), (&[2i64, 1][..], vec![4, 5]));
}

#[test]
fn failures_are_results() {
    let device = Device::open("cpu").unwrap();
    let status = |result: kiln::Result<()>, part: &str| {
        let error = result.unwrap_err();
        assert!(error.message.contains(part), "{}", error);
        error.status
    };
    assert_eq!(status(Device::open("nothing").map(drop), "nothing"), Status::NotFound);
    assert_eq!(status(Device::open("a\0b").map(drop), "zero byte"), Status::BadArgument);
    assert_eq!(status(Program::from_text("bad.tile", "kernel").map(drop), "error"), Status::BadSource);
    assert_eq!(status(Program::from_file("gone.tile").map(drop), "gone.tile"), Status::NotFound);
    let x = Tensor::new(&device, Type::F32, &[2, 4]).unwrap();
    assert_eq!(status(x.upload(&[1.0f32]), "has 32 bytes, the slice 4"), Status::BadShape);
    assert_eq!(status(x.slice(1, 3, 2).map(drop), "kiln_tensor_slice"), Status::BadShape);
    assert_eq!(status(x.slice(1, 1, 2).unwrap().download::<f32>().map(drop), "contiguous"), Status::BadShape);
    assert_eq!(status(x.reshaped(&[3]).map(drop), "number of elements"), Status::BadShape);
    assert_eq!(status(Tensor::new(&device, Type::F32, &[-1]).map(drop), "negative"), Status::BadShape);
    assert_eq!(status(Tensor::new(&device, Type::F32, &[i64::MAX, 2]).map(drop), "more elements"), Status::BadShape);
    assert_eq!(status(Tensor::new(&device, Type::F32, &[1; 9]).map(drop), "9 dimensions"), Status::BadShape);
    let kernel = Kernel::build(&device, &program(), "scale", "B=none").unwrap();
    let stream = Stream::default_of(&device);
    assert_eq!(status(kernel.launch(&stream, &[Arg::Tensor(&x)]), "scale"), Status::BadArgument);
}

#[test]
fn operators_run_and_refuse() {
    let device = Device::open("cpu").unwrap();
    let (ops, stream) = (Operators::open(&device).unwrap(), Stream::default_of(&device));
    let x = Tensor::from_slice(&device, Type::F32, &[2, 4], &[3.0f32; 8]).unwrap();
    let (y, wrong) = (Tensor::new(&device, Type::F32, &[2, 4]).unwrap(), Tensor::new(&device, Type::F32, &[2, 5]).unwrap());
    ops.rms_norm(&stream, &NormArgs { x: Some(&x), out: Some(&y), ..Default::default() }).unwrap();
    assert_eq!(y.download::<f32>().unwrap(), [1.0f32; 8]);
    let error = ops.rms_norm(&stream, &NormArgs { x: Some(&x), out: Some(&wrong), ..Default::default() }).unwrap_err();
    assert_eq!(error.status, Status::BadShape);
    assert!(error.message.starts_with("kiln_rms_norm: dimension 1 of 'out' is 5, expected 4"), "{}", error);
}

#[test]
fn plans_are_made_and_checked() {
    let device = Device::open("cpu").unwrap();
    let (ops, stream) = (Operators::open(&device).unwrap(), Stream::default_of(&device));
    let mut scratch = Workspace::new(&device);
    let lengths = Tensor::from_slice(&device, Type::I32, &[2], &[5i32, 30]).unwrap();
    let batch = PagedPlanArgs { lengths: Some(&lengths), rows: 2, heads: 2, key_heads: 1, size: 16, ..Default::default() };
    let bits = |n: usize| (0..n).map(|i| 0x3c00 + (i * 37 % 512) as u16).collect::<Vec<u16>>();
    let cache = Tensor::from_slice(&device, Type::F16, &[4, 16, 1, 16], &bits(4 * 16 * 16)).unwrap();
    let q = Tensor::from_slice(&device, Type::F16, &[2, 2, 16], &bits(64)).unwrap();
    let table = Tensor::from_slice(&device, Type::I32, &[2, 2], &[2i32, 0, 3, 1]).unwrap();
    let out = Tensor::new(&device, Type::F16, &[2, 2, 16]).unwrap();
    let call = PagedAttentionArgs {
        q: Some(&q),
        k: Some(&cache),
        v: Some(&cache),
        table: Some(&table),
        lengths: Some(&lengths),
        out: Some(&out),
        ..Default::default()
    };
    ops.paged_attention(&stream, &mut scratch, &call).unwrap();
    let without = out.download::<u16>().unwrap();
    let mut plan = PagedPlan::new();
    let empty = ops.paged_attention(&stream, &mut scratch, &PagedAttentionArgs { plan: Some(&plan), ..call }).unwrap_err();
    assert!(empty.message.contains("plan"), "{}", empty);
    for _ in 0..2 {
        ops.paged_plan_make(&stream, &batch, &mut plan).unwrap();
        ops.paged_attention(&stream, &mut scratch, &PagedAttentionArgs { plan: Some(&plan), ..call }).unwrap();
        stream.wait().unwrap();
        // The last bit of f16, as the keys are divided otherwise.
        assert!(out.download::<u16>().unwrap().iter().zip(&without).all(|(a, b)| a.abs_diff(*b) <= 1));
    }
    let other = PagedPlanArgs { size: 32, ..batch };
    ops.paged_plan_make(&stream, &other, &mut plan).unwrap();
    let wrong = ops.paged_attention(&stream, &mut scratch, &PagedAttentionArgs { plan: Some(&plan), ..call }).unwrap_err();
    assert!(wrong.message.contains("plan"), "{}", wrong);
    let shape = ops.mla_plan_make(&stream, &MlaPlanArgs { lengths: Some(&lengths), ..Default::default() }, &mut MlaPlan::new());
    assert_eq!(shape.unwrap_err().status, Status::BadArgument);
}
