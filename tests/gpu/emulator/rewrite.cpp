// SPDX-License-Identifier: MIT
// rewrite.cpp - the text of a kernel, preprocessed, made into C++ for the host.
//
// Inline PTX is translated instruction by instruction; shared memory becomes a call; a table of the kernels is added.
// Everything else (threadIdx, shuffles, atomics ...) is declared in device.h and stays as it is.
#include "rewrite.h"

#include <cctype>
#include <cstring>

namespace emu {

namespace {

struct Problem { std::string text; };

std::string trim(const std::string &s)
{
    const size_t a = s.find_first_not_of(" \t\r\n"), b = s.find_last_not_of(" \t\r\n");
    return a == std::string::npos ? "" : s.substr(a, b - a + 1);
}

bool is_name(char c) { return isalnum((unsigned char)c) || c == '_' || c == '$'; }

// The place after a string literal that begins at `at`.
size_t behind_string(const std::string &s, size_t at)
{
    for (size_t i = at + 1; i < s.size(); i++)
        if (s[i] == '\\')
            i++;
        else if (s[i] == s[at])
            return i + 1;
    throw Problem{ "a string does not end" };
}

// Parts of s[from, to) between separators that stand in no bracket and no string.
std::vector<std::string> split(const std::string &s, char separator)
{
    std::vector<std::string> parts(1);
    int depth = 0;
    for (size_t i = 0; i < s.size(); i++) {
        const char c = s[i];
        if (c == '"' || c == '\'') {
            const size_t end = behind_string(s, i);
            parts.back() += s.substr(i, end - i);
            i = end - 1;
            continue;
        }
        depth += c == '(' || c == '[' || c == '{';
        depth -= c == ')' || c == ']' || c == '}';
        if (c == separator && depth == 0)
            parts.emplace_back();
        else
            parts.back() += c;
    }
    return parts;
}

size_t behind_bracket(const std::string &s, size_t at)
{
    int depth = 0;
    for (size_t i = at; i < s.size(); i++) {
        if (s[i] == '"' || s[i] == '\'') {
            i = behind_string(s, i) - 1;
            continue;
        }
        depth += s[i] == '(';
        depth -= s[i] == ')';
        if (depth == 0)
            return i + 1;
    }
    throw Problem{ "a bracket does not close" };
}

// Adjacent string literals as the bytes they mean.
std::string literal_value(const std::string &s)
{
    std::string value;
    for (size_t i = 0; i < s.size(); i++) {
        if (s[i] != '"')
            continue;
        const size_t end = behind_string(s, i) - 1;
        for (i++; i < end; i++) {
            if (s[i] != '\\') {
                value += s[i];
                continue;
            }
            const char c = s[++i];
            value += c == 'n' ? '\n' : c == 't' ? '\t' : c;
        }
    }
    return value;
}

// ---- one asm statement

struct Statement {
    std::vector<std::string> constraints;
    size_t number;
    std::string locals;                                    // registers that the text declares, as C++
    std::vector<std::string> names;
};

const char *register_type(const std::string &type)
{
    static const struct { const char *ptx, *c; } types[] = {
        { ".pred", "bool" }, { ".b16", "ptx::u16" }, { ".u16", "ptx::u16" }, { ".s16", "ptx::u16" }, { ".f16", "ptx::u16" },
        { ".b32", "ptx::u32" }, { ".u32", "ptx::u32" }, { ".s32", "ptx::u32" }, { ".f32", "float" }, { ".f16x2", "ptx::u32" },
        { ".b64", "ptx::u64" }, { ".u64", "ptx::u64" }, { ".s64", "ptx::u64" }, { ".f64", "double" } };
    for (const auto &t : types)
        if (type == t.ptx)
            return t.c;
    throw Problem{ "registers of type '" + type + "' are not emulated" };
}

std::string local_name(const Statement &st, const std::string &name) { return "asm" + std::to_string(st.number) + "_" + name; }

const char *special_register(const std::string &name)
{
    static const struct { const char *ptx, *c; } specials[] = {
        { "%tid.x", "THREAD_X" }, { "%tid.y", "THREAD_Y" }, { "%tid.z", "THREAD_Z" }, { "%ctaid.x", "BLOCK_X" }, { "%ctaid.y", "BLOCK_Y" },
        { "%ctaid.z", "BLOCK_Z" }, { "%ntid.x", "THREADS_X" }, { "%nctaid.x", "BLOCKS_X" }, { "%nctaid.y", "BLOCKS_Y" },
        { "%cluster_ctarank", "CLUSTER_RANK" }, { "%cluster_nctarank", "CLUSTER_SIZE" }, { "%cluster_ctaid.x", "CLUSTER_RANK" },
        { "%cluster_nctaid.x", "CLUSTER_SIZE" }, { "%clusterid.x", "CLUSTER" }, { "%nclusterid.x", "CLUSTERS" }, { "%laneid", "LANE" },
        { "%warpid", "WARP_NUMBER" }, { "%smid", "SM" } };
    const std::string single = name.compare(0, 2, "%%") == 0 ? name.substr(1) : name;      // as inline PTX writes it
    for (const auto &s : specials)
        if (single == s.ptx)
            return s.c;
    throw Problem{ "the register " + name + " is not emulated" };
}

// A register, a number, an operand %n, or a sum of them.
std::string scalar(const Statement &st, const std::string &given)
{
    const std::string s = trim(given);
    const size_t plus = s.find('+', 1);
    if (plus != std::string::npos)
        return "(" + scalar(st, s.substr(0, plus)) + " + " + scalar(st, s.substr(plus + 1)) + ")";
    if (s == "_")
        return "ptx::sink";
    const size_t bar = s.find('|');
    if (bar != std::string::npos)
        return "ptx::pair(" + scalar(st, s.substr(0, bar)) + ", " + scalar(st, s.substr(bar + 1)) + ")";
    if (s.size() > 1 && s[0] == '!')
        return "!" + scalar(st, s.substr(1));
    if (s.compare(0, 2, "%%") == 0)                        // one %, where there are operands
        return scalar(st, s.substr(1));
    if (s.size() > 1 && s[0] == '%' && isdigit((unsigned char)s[1])) {
        if ((size_t)atoi(s.c_str() + 1) >= st.constraints.size())
            throw Problem{ "there is no operand " + s };
        return "asm" + std::to_string(st.number) + "_" + s.substr(1);
    }
    if (s == "%clock64" || s == "%globaltimer")
        return "ptx::clock_now()";
    if (s[0] == '%')
        return std::string("ptx::special(ptx::") + special_register(s) + ")";
    if (s.size() == 10 && (s[0] == '0' && (s[1] == 'f' || s[1] == 'F')))
        return "ptx::float_of(0x" + s.substr(2) + "u)";
    if (isdigit((unsigned char)s[0]) || s[0] == '-')
        return s;
    for (const std::string &name : st.names)
        if (name == s)
            return local_name(st, s);
    throw Problem{ "'" + s + "' is no register that the text declares" };
}

std::string parts(const Statement &st, const std::string &inside)
{
    std::string text;
    for (const std::string &part : split(inside, ',')) {
        const std::string p = trim(part);
        text += text.empty() ? "" : ", ";
        text += p[0] == '{' ? parts(st, p.substr(1, p.size() - 2)) : scalar(st, p);
    }
    return text;
}

Operand operand(const Statement &st, const std::string &given)
{
    const std::string s = trim(given);
    if (s[0] == '[')
        return { 'a', parts(st, s.substr(1, s.size() - 2)) };
    if (s[0] == '{')
        return { 'v', parts(st, s.substr(1, s.size() - 2)) };
    return { 'r', scalar(st, s) };
}

void declare(Statement *st, const std::string &declaration)      // ".reg .b64 x, y"
{
    const size_t type = declaration.find('.', 1), names = declaration.find_first_of(" \t", type);
    const char *const c = register_type(trim(declaration.substr(type, names - type)));
    for (const std::string &part : split(declaration.substr(names), ',')) {
        st->names.push_back(trim(part));
        st->locals += std::string(c) + " " + local_name(*st, trim(part)) + "{}; ";
    }
}

std::string instruction(Statement *st, std::string s)
{
    std::string guard;
    if (s[0] == '@') {
        const size_t end = s.find_first_of(" \t");
        guard = "if (" + scalar(*st, s.substr(1, end - 1)) + ") ";
        s = trim(s.substr(end));
    }
    const size_t end = s.find_first_of(" \t\n");
    const std::string opcode = s.substr(0, end);
    const std::string rest = end == std::string::npos ? "" : trim(s.substr(end));
    if (opcode == "bra" || opcode == "bra.uni")
        return guard + "goto " + local_name(*st, "to_" + rest) + "; ";
    std::vector<Operand> operands;
    if (!rest.empty())
        for (const std::string &part : split(rest, ','))
            operands.push_back(operand(*st, part));
    const std::string text = translate(opcode, operands);
    if (text.empty()) {
        std::string shape;
        for (const Operand &x : operands)
            shape += x.shape;
        throw Problem{ "the PTX instruction '" + opcode + "' (operands " + shape + ") is not emulated: tests/gpu/emulator/instructions.cpp has no rule for it" };
    }
    return guard + "{ " + text + "; } ";
}

// Braces of blocks are left out: they stand where a statement may begin or has ended. Those of vectors stay.
std::string without_blocks(const std::string &ptx)
{
    std::string flat;
    for (const char c : ptx) {
        if (c == '{' || c == '}') {
            const std::string before = trim(flat);
            if (before.empty() || before.back() == ';')
                continue;
        }
        flat += c == '\n' || c == '\t' ? ' ' : c;
    }
    return flat;
}

// The text between the quotes: blocks, declarations, labels, instructions.
std::string body(Statement *st, const std::string &ptx)
{
    static const std::regex label("\\s*([A-Za-z_$][A-Za-z_0-9$]*)\\s*:(?!:)");
    std::string out;
    for (std::string s : split(without_blocks(ptx), ';')) {
        std::smatch found;
        while (std::regex_search(s, found, label, std::regex_constants::match_continuous)) {
            out += local_name(*st, "to_" + found[1].str()) + ": ; ";
            s = found.suffix().str();
        }
        s = trim(s);
        if (s.empty())
            continue;
        if (s.compare(0, 5, ".reg ") == 0)
            declare(st, s);
        else
            out += instruction(st, s);
    }
    return out;
}

// Inputs are copied, outputs are references, so that the registers of asynchronous products have addresses.
std::string asm_statement(const std::string &inside, size_t number)
{
    std::vector<std::string> sections = split(inside, ':');
    Statement st;
    st.number = number;
    std::string operands;
    for (size_t section = 1; section <= 2 && section < sections.size(); section++) {
        if (trim(sections[section]).empty())
            continue;
        for (const std::string &part : split(sections[section], ',')) {
            const std::string p = trim(part);
            const size_t open = p.find('(', behind_string(p, 0));
            const std::string constraint = literal_value(p.substr(0, open)), expression = p.substr(open, p.size() - open);
            const std::string name = "asm" + std::to_string(number) + "_" + std::to_string(st.constraints.size());
            if (section == 1)
                operands += "auto &" + name + " = ptx::out_" + constraint.substr(1) + expression + "; ";
            else
                operands += "const auto " + name + " = ptx::in_" + constraint + expression + "; ";
            st.constraints.push_back(constraint);
        }
    }
    const std::string text = body(&st, literal_value(sections[0]));
    if (text.empty())
        return ";";                                        // only a barrier for the compiler
    return "{ " + operands + st.locals + text + "}";
}

// ---- the whole text

std::string translate_asm(const std::string &s)
{
    std::string out;
    size_t number = 0;
    for (size_t i = 0; i < s.size(); ) {
        if (s[i] == '"' || s[i] == '\'') {
            const size_t end = behind_string(s, i);
            out += s.substr(i, end - i);
            i = end;
            continue;
        }
        const bool begins = isalpha((unsigned char)s[i]) || s[i] == '_';
        size_t end = i;
        while (begins && end < s.size() && is_name(s[end]))
            end++;
        const std::string word = s.substr(i, end - i);
        if (word == "asm" || word == "__asm__") {
            const size_t open = s.find('(', end), close = behind_bracket(s, open);
            out += asm_statement(s.substr(open + 1, close - open - 2), number++);
            i = s.find(';', close) + 1;
        } else if (begins) {
            out += word;
            i = end;
        } else {
            out += s[i++];
            while (i < s.size() && isdigit((unsigned char)s[i - 1]) && is_name(s[i]))
                out += s[i++];                             // a number and its suffix are no word
        }
    }
    return out;
}

// `extern __shared__ ... T name[];` becomes a macro for the running block's memory.
std::string place_shared(const std::string &s)
{
    static const std::regex declaration("extern\\s+__shared__\\s+(?:__align__\\s*\\(\\s*\\d+\\s*\\)\\s*)?([A-Za-z_][A-Za-z_0-9 ]*?)\\s*([A-Za-z_][A-Za-z_0-9]*)\\s*\\[\\s*\\]\\s*;");
    const std::string out = std::regex_replace(s, declaration, "\n#define $2 (($1 *)ptx::shared_memory_here())\n");
    if (std::regex_search(out, std::regex("\\b__shared__\\b")))
        throw Problem{ "shared variables other than 'extern __shared__ T name[];' are not emulated" };
    return out;
}

std::string table_of_kernels(const std::string &s)
{
    static const std::regex declaration("__global__\\s+void\\s+(?:__launch_bounds__\\s*\\(\\s*(\\d+)[^)]*\\)\\s*)?([A-Za-z_][A-Za-z_0-9]*)\\s*\\(");
    std::string out = "\nextern \"C\" __attribute__((visibility(\"default\"))) const emu_device::KernelInfo emu_kernels[] = {\n";
    for (std::sregex_iterator i(s.begin(), s.end(), declaration), end; i != end; ++i) {
        const std::string name = (*i)[2], threads = (*i)[1].matched ? (*i)[1].str() : "0";
        out += "    { \"" + name + "\", emu_device::Kernel<" + name + ">::call, emu_device::Kernel<" + name + ">::bytes, emu_device::Kernel<"
             + name + ">::count, " + threads + " },\n";
    }
    return out + "    { nullptr, nullptr, nullptr, 0, 0 } };\n";
}

// Wrappers of wgmma and mma take the addresses of their registers, a hundred and more; inlined everywhere, compiling takes five times as long.
std::string keep_calls(const std::string &s)
{
    static const std::regex wrapper("__forceinline__\\s+void\\s+(wgmma_6|mma_1)");
    return std::regex_replace(s, wrapper, "__noinline__ void $1");
}

}

bool rewrite(const std::string &text, std::string *out, std::string *problem)
{
    try {
        *out = "#include \"device.h\"\n" + translate_asm(place_shared(keep_calls(text))) + table_of_kernels(text);
        return true;
    } catch (const Problem &p) {
        *problem = p.text;
        return false;
    }
}

}
