//! What of Jinja a template may use: output, `if`, `for` and filters over the values it is given.
//!
//! The engine charges for what it makes, but not for how deep it goes: a long chain of operators overflows the stack,
//! which ends the process, and lists that hold themselves twice over, sixty times, are formatted without end. So
//! chains are short here, and no name stands for a computed value and no list is built. What is left is as large as
//! template and props, and the engine's fuel is enough.

use minijinja::machinery::ast::{BinOpKind, CallArg, CallType, Expr, Stmt};
use minijinja::machinery::{Token, parse, tokenize};
use minijinja::syntax::SyntaxConfig;

/// Most tokens between `{{` and `}}` or `{%` and `%}`.
const TAG_TOKENS_MAX: usize = 200;
/// Most `elif` in one part.
const ELIF_MAX: usize = 50;
/// What may be called by `|`. The engine has more; those build lists of lists or text to any width.
const FILTERS: [&str; 40] = [
    "abs",
    "bool",
    "capitalize",
    "count",
    "d",
    "default",
    "dictsort",
    "e",
    "escape",
    "first",
    "float",
    "format",
    "int",
    "items",
    "join",
    "last",
    "length",
    "lines",
    "list",
    "lower",
    "map",
    "max",
    "min",
    "reject",
    "rejectattr",
    "replace",
    "reverse",
    "round",
    "safe",
    "select",
    "selectattr",
    "sort",
    "split",
    "string",
    "sum",
    "title",
    "trim",
    "unique",
    "upper",
    "urlencode",
];
/// Filters that take numbers only, and so end on anything that is none.
const NUMERIC: [&str; 4] = ["abs", "float", "int", "round"];

/// What a template may not do, and where.
pub(super) struct Refusal {
    pub(super) line: usize,
    pub(super) message: String,
}

/// Whether the engine may compile and run this.
///
/// # Errors
/// The first `Refusal`; the engine's own for what is no template at all.
pub(super) fn check(source: &str) -> Result<(), Refusal> {
    measure(source)?;
    let template = parse(source, "template", SyntaxConfig::default()).map_err(|error| Refusal {
        line: error.line().unwrap_or(1),
        message: error.detail().unwrap_or("syntax error").to_owned(),
    })?;
    statement(&template)
}

/// Refuses what the parser would go too deep into. Reads tokens only.
fn measure(source: &str) -> Result<(), Refusal> {
    let (mut in_tag, mut is_first, mut elifs) = (0, false, 0);
    // What is no token ends the reading here, and is for the parser to explain.
    for (token, span) in tokenize(source, false, SyntaxConfig::default()).map_while(Result::ok) {
        let line = usize::from(span.start_line);
        if matches!(token, Token::BlockStart | Token::VariableStart | Token::TemplateData(_)) {
            in_tag = 0;
        }
        in_tag += 1;
        elifs += usize::from(is_first && matches!(token, Token::Ident("elif")));
        is_first = matches!(token, Token::BlockStart);
        if in_tag > TAG_TOKENS_MAX {
            return refuse(line, "an expression is too long");
        }
        if elifs > ELIF_MAX {
            return refuse(line, format!("a template has at most {ELIF_MAX} elif"));
        }
    }
    Ok(())
}

fn refuse<T>(line: usize, message: impl Into<String>) -> Result<T, Refusal> {
    Err(Refusal { line, message: message.into() })
}

fn statement(statement: &Stmt<'_>) -> Result<(), Refusal> {
    let (line, tag) = match statement {
        Stmt::Template(template) => return statements(&template.children),
        Stmt::EmitRaw(_) => return Ok(()),
        Stmt::EmitExpr(emit) => return computed(&emit.expr),
        Stmt::IfCond(condition) => {
            computed(&condition.expr)?;
            statements(&condition.true_body)?;
            return statements(&condition.false_body);
        }
        Stmt::ForLoop(each) if !each.recursive => {
            given(&each.iter)?;
            each.filter_expr.as_ref().map_or(Ok(()), computed)?;
            statements(&each.body)?;
            return statements(&each.else_body);
        }
        Stmt::ForLoop(each) => (each.span().start_line, "a recursive loop"),
        Stmt::WithBlock(with) => (with.span().start_line, "with"),
        Stmt::Set(set) => (set.span().start_line, "set"),
        Stmt::SetBlock(set) => (set.span().start_line, "set"),
        Stmt::AutoEscape(escape) => (escape.span().start_line, "autoescape"),
        Stmt::FilterBlock(filter) => (filter.span().start_line, "filter"),
        Stmt::Do(call) => (call.span().start_line, "do"),
    };
    refuse(line.into(), format!("{tag} is not supported; a template has output, if and for"))
}

fn statements(list: &[Stmt<'_>]) -> Result<(), Refusal> {
    list.iter().try_for_each(statement)
}

/// An expression whose value is shown, compared or computed with: it may be a sum or a product.
fn computed(expr: &Expr<'_>) -> Result<(), Refusal> {
    expression(expr, true)
}

/// An expression whose value may be a list: not one that was multiplied or put together.
fn given(expr: &Expr<'_>) -> Result<(), Refusal> {
    expression(expr, false)
}

fn expression(expr: &Expr<'_>, may_add: bool) -> Result<(), Refusal> {
    let line = || usize::from(expr.span().start_line);
    let same = |expr: &Expr<'_>| expression(expr, may_add);
    match expr {
        Expr::Var(_) | Expr::Const(_) => Ok(()),
        Expr::Slice(slice) => {
            given(&slice.expr)?;
            [&slice.start, &slice.stop, &slice.step].into_iter().flatten().try_for_each(computed)
        }
        Expr::UnaryOp(operation) => computed(&operation.expr),
        Expr::Compare(compare) => {
            given(&compare.expr)?;
            compare.ops.iter().try_for_each(|operation| given(&operation.expr))
        }
        Expr::BinOp(operation) => match operation.op {
            BinOpKind::Add | BinOpKind::Mul if !may_add => {
                refuse(line(), "a sum or product here has to go through round, int or float first")
            }
            BinOpKind::Add
            | BinOpKind::Mul
            | BinOpKind::Sub
            | BinOpKind::Div
            | BinOpKind::FloorDiv
            | BinOpKind::Rem
            | BinOpKind::Pow => [&operation.left, &operation.right].into_iter().try_for_each(computed),
            BinOpKind::ScAnd | BinOpKind::ScOr => {
                [&operation.left, &operation.right].into_iter().try_for_each(same)
            }
            BinOpKind::Eq
            | BinOpKind::Ne
            | BinOpKind::Lt
            | BinOpKind::Lte
            | BinOpKind::Gt
            | BinOpKind::Gte
            | BinOpKind::In
            | BinOpKind::Concat => [&operation.left, &operation.right].into_iter().try_for_each(given),
        },
        Expr::IfExpr(choice) => {
            computed(&choice.test_expr)?;
            same(&choice.true_expr)?;
            choice.false_expr.as_ref().map_or(Ok(()), same)
        }
        Expr::Filter(filter) => {
            if !FILTERS.contains(&filter.name) {
                return refuse(line(), format!("there is no filter {}", filter.name));
            }
            let input = if NUMERIC.contains(&filter.name) { computed } else { given };
            filter.expr.as_ref().map_or(Ok(()), input)?;
            // By its name `map` calls any filter; with `attribute` it only looks.
            arguments(line(), &filter.args, filter.name != "map")
        }
        Expr::Test(test) => {
            given(&test.expr)?;
            arguments(line(), &test.args, true)
        }
        Expr::GetAttr(attribute) => given(&attribute.expr),
        Expr::GetItem(item) => {
            given(&item.expr)?;
            computed(&item.subscript_expr)
        }
        Expr::Call(call) => {
            let is_known = match call.identify_call() {
                CallType::Function(name) => name == "range",
                CallType::Method(Expr::Var(of), name) => of.id == "loop" && name == "cycle",
                CallType::Method(..) | CallType::Object(_) => false,
            };
            if !is_known {
                return refuse(line(), "only range() and loop.cycle() can be called");
            }
            arguments(line(), &call.args, true)
        }
        Expr::List(list) => constants(line(), &list.items),
        Expr::Tuple(tuple) => constants(line(), &tuple.items),
        Expr::Map(_) => refuse(line(), "a template cannot build a map"),
    }
}

fn arguments(line: usize, list: &[CallArg<'_>], with_positions: bool) -> Result<(), Refusal> {
    list.iter().try_for_each(|argument| match argument {
        CallArg::Pos(expr) if with_positions => given(expr),
        CallArg::Pos(_) => refuse(line, "map takes only attribute and default"),
        CallArg::Kwarg(_, expr) => given(expr),
        CallArg::PosSplat(_) | CallArg::KwargSplat(_) => refuse(line, "arguments cannot be unpacked"),
    })
}

fn constants(line: usize, items: &[Expr<'_>]) -> Result<(), Refusal> {
    let is_constant = |item: &Expr<'_>| matches!(item, Expr::Const(_));
    if items.iter().all(is_constant) {
        Ok(())
    } else {
        refuse(line, "a list holds only what is written in it")
    }
}
