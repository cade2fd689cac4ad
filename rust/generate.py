#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes the parts of the Rust crates that follow from the C headers: kiln-sys/src/lib.rs (all of them, as they are) and
kiln/src/generated.rs (enums, structs of arguments and methods of the operators that have the usual form).

usage: generate.py [--check]        --check: change nothing; end with 1 if a file would change

It reads what clang makes of the headers, and so needs clang; those who only build the crates do not.
"""
import json
import os
import re
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
OWNERS = {"kiln_device", "kiln_stream", "kiln_event", "kiln_program", "kiln_kernel", "kiln_ops", "kiln_archive"}
PLANS = {"const kiln_paged_plan *": "PagedPlan", "const kiln_mla_plan *": "MlaPlan"}
BORROWED = ("const kiln_rotary *", "const kiln_mla_shape *")       # structs of numbers in host memory
SCALARS = {"_Bool": "bool", "double": "f64", "int": "c_int", "int64_t": "i64", "uint64_t": "u64", "size_t": "usize",
           "char": "c_char", "void": "c_void", "int32_t": "i32", "uint8_t": "u8", "float": "f32", "unsigned int": "c_uint"}


def comments_of(paths):
    """What the headers say of each field: {(struct, field): text}."""
    found = {}
    for path in paths:
        with open(path, encoding="utf-8") as file:
            text = file.read()
        for body, struct in re.findall(r"typedef struct \w+ \{(.*?)\n\} (\w+);", text, re.S):
            for names, comment in re.findall(r"^ +[\w ]+?[ *](\w+(?:, \w+)*);[ ]*/\*(.*?)\*/", body, re.S | re.M):
                for name in names.split(", "):
                    found[struct, name] = re.sub(r"\s*\n\s*\*?\s*", " ", comment).strip()
    return found


class Headers:
    def __init__(self):
        folder = os.path.join(ROOT, "include", "kiln", "ops")
        names = ["kiln/kiln.h"] + sorted("kiln/ops/" + name for name in os.listdir(folder) if name.endswith(".h"))
        with tempfile.TemporaryDirectory() as work:
            path = os.path.join(work, "all.h")
            with open(path, "w", encoding="utf-8") as file:
                file.writelines('#include "%s"\n' % name for name in names)
            text = subprocess.run(["clang", "-I", os.path.join(ROOT, "include"), "-Xclang", "-ast-dump=json", "-fsyntax-only", path],
                                  check=True, stdout=subprocess.PIPE, text=True).stdout
        self.enums, self.structs, self.functions, self.opaque, self.constants = {}, {}, {}, set(), {}
        self.comments = comments_of(os.path.join(ROOT, "include", name) for name in names)
        for node in json.loads(text)["inner"]:
            self.take(node)

    def take(self, node):
        name, kind = node.get("name", ""), node["kind"]
        if kind == "EnumDecl":
            values, following = [], 0
            for one in node.get("inner", []):
                if one["kind"] != "EnumConstantDecl":
                    continue
                given = [x for x in one.get("inner", []) if "value" in x]
                following = int(given[0]["value"]) if given else following
                values.append((one["name"], following))
                following += 1
            if name.startswith("kiln_"):
                self.enums[name] = values
            elif values and values[0][0].startswith("KILN_"):
                self.constants.update(values)
        elif kind == "RecordDecl" and name.startswith("kiln_"):
            if node.get("completeDefinition"):
                self.structs[name] = [(f["name"], f["type"]["qualType"]) for f in node["inner"]
                                      if f["kind"] == "FieldDecl" and "name" in f]
            else:
                self.opaque.add(name)
        elif kind == "FunctionDecl" and name.startswith("kiln_") and node.get("storageClass") != "static":
            result = node["type"]["qualType"].split("(")[0].strip()
            self.functions[name] = (result, [(p.get("name", "x"), p["type"]["qualType"]) for p in node.get("inner", [])
                                             if p["kind"] == "ParmVarDecl"])


def rust_type(c):
    c = c.strip()
    array = re.fullmatch(r"(.*)\[(\d+)\]", c)
    if array:
        return "[%s; %s]" % (rust_type(array[1]), array[2])
    if c.endswith("*const"):
        c = c[:-len("const")].strip()
    if c.endswith("*"):
        inner = c[:-1].strip()
        is_const = inner.startswith("const ") or inner.endswith("*const")
        inner = inner[len("const "):] if inner.startswith("const ") and not inner.endswith("*") else inner
        inner = inner[len("const "):] if inner.startswith("const ") and inner.endswith("*const") else inner
        if inner.endswith("*const"):                        # const char *const *
            return "*const *const %s" % rust_type(inner[:-len("*const")].replace("const ", "").strip())
        return "*%s %s" % ("const" if is_const else "mut", rust_type(inner))
    c = c.replace("struct ", "").replace("const ", "")
    return SCALARS.get(c, c)


def field_name(name):
    return "r#" + name if name in ("type", "in", "match", "move", "ref", "where") else name


def sys_text(h):
    out = ["// SPDX-License-Identifier: MIT", "//! The C interface of Kiln as it is: include/kiln/*.h. Written by rust/generate.py.",
           "#![allow(non_camel_case_types)]", "",
           "use std::os::raw::{c_char, c_int, c_uint, c_void};", ""]
    out += ["pub const %s: c_int = %d;" % item for item in sorted(h.constants.items())] + [""]
    for name, values in sorted(h.enums.items()):
        out.append("pub type %s = c_uint;" % name)
        out += ["pub const %s: %s = %d;" % (value, name, number) for value, number in values] + [""]
    opaque = sorted((h.opaque | OWNERS) - set(h.structs))
    for name in opaque:
        out += ["#[repr(C)]", "pub struct %s {" % name, "    _private: [u8; 0],", "}", ""]
    out += ["/// The value of a [`kiln_arg`], as its kind says.", "#[repr(C)]", "#[derive(Clone, Copy)]", "pub union kiln_arg_value {",
            "    pub tensor: *const kiln_tensor,", "    pub integer: i64,", "    pub real: f64,", "}", "",
            "#[repr(C)]", "#[derive(Clone, Copy)]", "pub struct kiln_arg {", "    pub kind: kiln_arg_kind,",
            "    pub value: kiln_arg_value,", "}", ""]
    for name, fields in sorted(h.structs.items()):
        if name == "kiln_arg":
            continue
        out += ["#[repr(C)]", "#[derive(Clone, Copy)]", "pub struct %s {" % name]
        out += ["    pub %s: %s," % (field_name(field), rust_type(kind)) for field, kind in fields] + ["}", ""]
        out += ["impl Default for %s {" % name, "    /// All zero.", "    fn default() -> Self {",
                "        // Integers, floats, false, null pointers: zero is a value of each.",
                "        unsafe { core::mem::zeroed() }", "    }", "}", ""]
    out += ['extern "C" {']
    for name, (result, parameters) in sorted(h.functions.items()):
        taken = ", ".join("%s: %s" % (field_name(p), rust_type(kind)) for p, kind in parameters)
        given = "" if result == "void" else " -> " + rust_type(result)
        out.append("    pub fn %s(%s)%s;" % (name, taken, given))
    return "\n".join(out + ["}", ""])


def camel(name):
    return "".join(part[:1].upper() + part[1:].lower() for part in name.split("_"))


def enum_name(c_name):
    return camel(c_name[len("kiln_"):])


def variant(c_name, value):
    prefix = {"kiln_type": "KILN_", "kiln_status": "KILN_"}.get(c_name, "KILN_" + c_name[len("kiln_"):].upper() + "_")
    rest = value[len(prefix):] if value.startswith(prefix) else value[len("KILN_"):]
    return rest if c_name == "kiln_type" else camel(rest)


WRAPPED_ENUMS = ("kiln_type", "kiln_status")


def enum_text(h, name):
    values = h.enums[name]
    zero = any(number == 0 for _, number in values)
    out = ["/// `%s` of the C headers." % name, "#[derive(Clone, Copy, Debug, PartialEq, Eq%s)]" % (", Default" if zero else ""),
           "#[repr(u32)]", "pub enum %s {" % enum_name(name)]
    for value, number in values:
        out += ["    #[default]"] * (number == 0) + ["    %s = %d," % (variant(name, value), number)]
    if name != "kiln_status":
        return out + ["}", ""]
    out += ["}", "", "impl %s {" % enum_name(name), "    pub(crate) fn from_c(value: u32) -> Option<Self> {",
            "        match value {"]
    out += ["            %d => Some(Self::%s)," % (number, variant(name, value)) for value, number in values]
    return out + ["            _ => None,", "        }", "    }", "}", ""]


class Arguments:
    """A struct of arguments whose fields are all of kinds that have a safe form."""

    def __init__(self, h, name):
        self.name, self.fields, self.scratch, self.borrows = name, [], False, False
        self.comments = h.comments
        for field, kind in h.structs[name]:
            if field == "struct_size":
                continue
            if field in ("workspace", "workspace_bytes"):
                self.scratch = True
                continue
            if field in ("memory", "memory_bytes"):            # of a plan, which has its own
                continue
            self.fields.append((field, kind, self.safe(h, kind)))
        self.usable = all(safe for _, _, safe in self.fields)

    def safe(self, h, kind):
        if kind == "const kiln_tensor *":
            self.borrows = True
            return "Option<&'a Tensor>"
        if kind in BORROWED:
            self.borrows = True
            return "Option<&'a sys::%s>" % kind.split()[1]
        if kind in PLANS:
            self.borrows = True
            return "Option<&'a %s>" % PLANS[kind]
        if kind == "const double *":
            return "Option<f64>"
        if kind in h.enums:
            if kind == "kiln_type":
                return "Option<Type>"
            return enum_name(kind)
        return {"_Bool": "bool", "double": "f64", "int64_t": "i64", "int": "i32"}.get(kind)

    @property
    def rust(self):
        return camel(self.name[len("kiln_"):])

    @property
    def generics(self):
        return "<'a>" if self.borrows else ""

    def text(self, h):
        out = ["/// `%s`. The comments of fields are those of the C header, which has the rest; what is left out has its default." % self.name,
               "#[derive(Clone, Copy, Default)]", "pub struct %s%s {" % (self.rust, self.generics)]
        for field, _, safe in self.fields:
            comment = self.comments.get((self.name, field))
            out += ["    /// `` %s ``" % re.sub(r"\s+", " ", comment)] if comment else []
            out.append("    pub %s: %s," % (field_name(field), safe))
        out += ["}", ""]
        out += ["impl %s%s {" % (self.rust, "<'_>" if self.borrows else ""),
                "    // `numbers` holds what the struct of C points to.",
                "    fn c_struct(&self, %snumbers: &mut Vec<Box<f64>>, held: &mut Vec<Held>) -> sys::%s {" % ("", self.name),
                "        let _ = (&numbers, &held);",
                "        sys::%s {" % self.name, "            struct_size: core::mem::size_of::<sys::%s>()," % self.name]
        for field, kind, safe in self.fields:
            name = field_name(field)
            value = {"Option<&'a Tensor>": "tensor(self.%s, held)", "Option<f64>": "number(self.%s, numbers)",
                     "Option<Type>": "self.%s.map_or(0, |t| t as u32)"}.get(safe)
            if kind in BORROWED:
                value = "self.%s.map_or(core::ptr::null(), |r| r)"
            if kind in PLANS:
                value = "plan(self.%s, held)"
            if value is None:
                value = "self.%s as u32" if safe[0].isupper() else "self.%s"
            out.append("            %s: %s," % (name, value % name))
        if len(self.fields) + 1 < len(h.structs[self.name]):
            out.append("            ..Default::default()")
        return out + ["        }", "    }", "}", ""]


def method_text(name, arguments, sized):
    rust = name[len("kiln_"):]
    call = ["        let (mut numbers, mut held) = (Vec::new(), vec![self.held()]);",
            "        let %sc = args.c_struct(&mut numbers, &mut held);" % ("mut " if arguments.scratch else "")]
    if arguments.scratch:
        call += ["        let mut bytes = 0;",
                 "        check(unsafe { sys::%s(self.as_ptr(), &c, &mut bytes) })?;" % sized,
                 "        scratch.reserve(bytes, stream)?;",
                 "        c.workspace = scratch.as_ptr();", "        c.workspace_bytes = scratch.bytes();",
                 "        held.extend(scratch.held());"]
    call += ["        stream.fits(self.device())?;",
             "        check(unsafe { sys::%s(self.as_ptr(), stream.as_ptr(), &c) })?;" % name,
             "        stream.hold(held);", "        Ok(())"]
    scratch = ", scratch: &mut Workspace" if arguments.scratch else ""
    return ["    /// `%s`." % name, "    pub fn %s(&self, stream: &Stream%s, args: &%s) -> Result<()> {" % (rust, scratch, arguments.rust)] + \
        call + ["    }", ""]


# Those that fill a plan, whose memory grows to what the size function asks for.
def plan_method_text(h, name, arguments, plan):
    sized = name[:-len("_make")] + "_size"
    asked = "&c" if h.functions[sized][1][1][1] == "const %s *" % arguments.name else "c.shape"
    return ["    /// `%s`: the plan is for calls that are queued later on the same stream." % name,
            "    pub fn %s(&self, stream: &Stream, args: &%s, plan: &mut %s) -> Result<()> {" % (name[len("kiln_"):], arguments.rust, plan),
            "        let (mut numbers, mut held) = (Vec::new(), vec![self.held()]);",
            "        let mut c = args.c_struct(&mut numbers, &mut held);",
            "        let mut bytes = 0;",
            "        check(unsafe { sys::%s(self.as_ptr(), %s, &mut bytes) })?;" % (sized, asked),
            "        stream.fits(self.device())?;",
            "        c.memory = plan.reserve(self.device(), bytes)?;", "        c.memory_bytes = bytes;",
            "        let mut made = Default::default();",
            "        check(unsafe { sys::%s(self.as_ptr(), stream.as_ptr(), &c, &mut made) })?;" % name,
            "        plan.set(made);", "        held.extend(plan.held());", "        stream.hold(held);", "        Ok(())", "    }", ""]


def safe_text(h):
    out = ["// SPDX-License-Identifier: MIT", "//! What follows from the C headers. Written by rust/generate.py.", "",
           "use crate::{check, Held, MlaPlan, Operators, PagedPlan, Plan, Result, Stream, Tensor, Workspace};", "use kiln_sys as sys;", "",
           "fn tensor(t: Option<&Tensor>, held: &mut Vec<Held>) -> *const sys::kiln_tensor {", "    match t {",
           "        Some(t) => {", "            held.push(t.held());", "            t.as_c()", "        }",
           "        None => core::ptr::null(),", "    }", "}", "",
           "fn plan<T: Copy + Default>(p: Option<&Plan<T>>, held: &mut Vec<Held>) -> *const T {", "    match p {", "        Some(p) => {",
           "            held.extend(p.held());", "            p.as_c()", "        }", "        None => core::ptr::null(),", "    }", "}", "",
           "fn number(x: Option<f64>, numbers: &mut Vec<Box<f64>>) -> *const f64 {", "    match x {", "        Some(x) => {",
           "            numbers.push(Box::new(x));", "            &**numbers.last().unwrap()", "        }",
           "        None => core::ptr::null(),", "    }", "}", ""]
    calls, plans, left = [], [], []
    for name, (result, parameters) in sorted(h.functions.items()):
        kinds = [kind for _, kind in parameters]
        if result != "kiln_status" or kinds[:2] != ["kiln_ops *", "kiln_stream *"]:
            continue
        plan = PLANS.get("const " + kinds[3]) if len(kinds) == 4 else None
        struct = re.fullmatch(r"const (kiln_\w+) \*", kinds[2])[1] if len(kinds) == 3 or plan else None
        arguments = Arguments(h, struct) if struct in h.structs else None
        if plan and arguments.usable:
            plans.append((name, arguments, plan))
            continue
        sized = name + "_workspace_size"
        if not arguments or not arguments.usable or (arguments.scratch and sized not in h.functions):
            left.append(name)
            continue
        calls.append((name, arguments, sized))
    used = {kind for _, a, _ in calls + plans for _, kind, _ in a.fields if kind in h.enums} | set(WRAPPED_ENUMS)
    for name in sorted(used):
        out += enum_text(h, name)
    done = set()
    for _, arguments, _ in calls + plans:
        if arguments.name not in done:
            done.add(arguments.name)
            out += arguments.text(h)
    out += ["/// The operators, each by the name of its C function. Those that take something else than one struct of tensors and numbers",
            "/// are in `kiln_sys` alone: %s." % (", ".join("`%s`" % name for name in left) or "none"), "impl Operators {"]
    for name, arguments, sized in calls:
        out += method_text(name, arguments, sized)
    for name, arguments, plan in plans:
        out += plan_method_text(h, name, arguments, plan)
    return "\n".join(out[:-1] + ["}", ""])


def main():
    h = Headers()
    stale = 0
    for path, text in (("kiln-sys/src/lib.rs", sys_text(h)), ("kiln/src/generated.rs", safe_text(h))):
        path = os.path.join(ROOT, "rust", path)
        before = open(path, encoding="utf-8").read() if os.path.exists(path) else None
        if before == text:
            continue
        stale += 1
        if "--check" in sys.argv[1:]:
            print("%s does not follow from the headers: run rust/generate.py" % path)
        else:
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
    sys.exit(1 if stale and "--check" in sys.argv[1:] else 0)


if __name__ == "__main__":
    main()
