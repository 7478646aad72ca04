//! A template's tree, written anew: every operation that can grow a value goes through the [budget](super::budget).
//!
//! The engine counts steps, and one step may double a text, so `~`, `+`, `*`, slices and literals pass through filters
//! of ours (which constants do not escape by being computed at compile time), and literal text is printed as a value, so
//! that the formatter sees all captured text. A printed field that does not exist is reported as a gap.
//!
//! Invariant: pure, and no node is left out: a new kind of node in a new version of the engine does not compile.

use minijinja::Value;
use minijinja::machinery::ast::{
    self, BinOpKind, CallArg, Compare, CompareOp, Expr, Spanned, Stmt, UnaryOpKind,
};
use minijinja::machinery::{Span, Token, tokenize};
use minijinja::syntax::SyntaxConfig;

use super::filters::{BOUNDED, GAP, TIMES};

/// Most words of one tag: each may be a level of the tree, and the engine walks trees by recursion.
const WORDS: usize = 400;
/// Most `elif` tags of one template, each a level as well.
const ELIFS: usize = 100;

/// Checks that the tree of the text will not be deeper than the stack; else returns line and reason.
pub(super) fn parseable(source: &str) -> Result<(), (usize, String)> {
    let (mut words, mut elifs) = (0, 0);
    for token in tokenize(source, false, SyntaxConfig::default()) {
        // An invalid token is reported by the parser, in its own words.
        let Ok((token, span)) = token else { return Ok(()) };
        if matches!(token, Token::VariableStart | Token::BlockStart | Token::TemplateData(_)) {
            words = 0;
        } else if words == 0 && matches!(token, Token::Ident("elif")) {
            elifs += 1;
        } else {
            words += 1;
        }
        if words > WORDS {
            return Err((span.start_line.into(), format!("a tag of more than {WORDS} words")));
        }
        if elifs > ELIFS {
            return Err((span.start_line.into(), format!("more than {ELIFS} elif")));
        }
    }
    Ok(())
}

/// Returns the statement with bounded operations.
pub(super) fn bounded<'a>(stmt: &Stmt<'a>) -> Stmt<'a> {
    match stmt {
        Stmt::Template(node) => Stmt::Template(at(node, ast::Template { children: body(&node.children) })),
        Stmt::EmitExpr(node) => Stmt::EmitExpr(at(node, ast::EmitExpr { expr: given_out(&node.expr) })),
        Stmt::EmitRaw(node) => {
            let text = constant(Value::from_safe_string(node.raw.to_owned()), node.span());
            Stmt::EmitExpr(at(node, ast::EmitExpr { expr: text }))
        }
        Stmt::ForLoop(node) => Stmt::ForLoop(at(
            node,
            ast::ForLoop {
                target: target(&node.target),
                iter: expr(&node.iter),
                filter_expr: node.filter_expr.as_ref().map(expr),
                recursive: node.recursive,
                body: body(&node.body),
                else_body: body(&node.else_body),
            },
        )),
        Stmt::IfCond(node) => Stmt::IfCond(at(
            node,
            ast::IfCond {
                expr: expr(&node.expr),
                true_body: body(&node.true_body),
                false_body: body(&node.false_body),
            },
        )),
        Stmt::WithBlock(node) => {
            let assignments = node.assignments.iter().map(|(to, value)| (target(to), expr(value))).collect();
            Stmt::WithBlock(at(node, ast::WithBlock { assignments, body: body(&node.body) }))
        }
        Stmt::Set(node) => {
            Stmt::Set(at(node, ast::Set { target: target(&node.target), expr: expr(&node.expr) }))
        }
        Stmt::SetBlock(node) => Stmt::SetBlock(at(
            node,
            ast::SetBlock {
                target: target(&node.target),
                filter: node.filter.as_ref().map(expr),
                body: body(&node.body),
            },
        )),
        Stmt::AutoEscape(node) => Stmt::AutoEscape(at(
            node,
            ast::AutoEscape { enabled: expr(&node.enabled), body: body(&node.body) },
        )),
        Stmt::FilterBlock(node) => Stmt::FilterBlock(at(
            node,
            ast::FilterBlock { filter: expr(&node.filter), body: body(&node.body) },
        )),
        Stmt::Block(node) => Stmt::Block(at(
            node,
            ast::Block { name: node.name, required: node.required, body: body(&node.body) },
        )),
        Stmt::Import(node) => {
            Stmt::Import(at(node, ast::Import { expr: expr(&node.expr), name: target(&node.name) }))
        }
        Stmt::FromImport(node) => {
            let names = node.names.iter().map(|(name, to)| (target(name), to.as_ref().map(target))).collect();
            Stmt::FromImport(at(node, ast::FromImport { expr: expr(&node.expr), names }))
        }
        Stmt::Extends(node) => Stmt::Extends(at(node, ast::Extends { name: expr(&node.name) })),
        Stmt::Include(node) => Stmt::Include(at(
            node,
            ast::Include { name: expr(&node.name), ignore_missing: node.ignore_missing },
        )),
        Stmt::Macro(node) => Stmt::Macro(macro_decl(node)),
        Stmt::CallBlock(node) => Stmt::CallBlock(at(
            node,
            ast::CallBlock { call: call(&node.call), macro_decl: macro_decl(&node.macro_decl) },
        )),
        Stmt::Do(node) => Stmt::Do(at(node, ast::Do { call: call(&node.call) })),
    }
}

fn at<T, U>(old: &Spanned<T>, new: U) -> Spanned<U> {
    Spanned::new(new, old.span())
}

fn body<'a>(stmts: &[Stmt<'a>]) -> Vec<Stmt<'a>> {
    stmts.iter().map(bounded).collect()
}

fn macro_decl<'a>(node: &Spanned<ast::Macro<'a>>) -> Spanned<ast::Macro<'a>> {
    at(
        node,
        ast::Macro {
            name: node.name,
            args: node.args.iter().map(target).collect(),
            defaults: node.defaults.iter().map(expr).collect(),
            body: body(&node.body),
        },
    )
}

/// Targets of an assignment: names, not values.
fn target<'a>(to: &Expr<'a>) -> Expr<'a> {
    if let Expr::Tuple(node) = to {
        return Expr::Tuple(at(node, ast::Tuple { items: node.items.iter().map(target).collect() }));
    }
    if let Expr::List(node) = to {
        return Expr::List(at(node, ast::List { items: node.items.iter().map(target).collect() }));
    }
    expr(to)
}

fn expr<'a>(old: &Expr<'a>) -> Expr<'a> {
    match old {
        Expr::Var(node) => Expr::Var(at(node, ast::Var { id: node.id })),
        Expr::Const(node) => constant(node.value.clone(), node.span()),
        Expr::Slice(node) => {
            let part = |part: &Option<Expr<'a>>| part.as_ref().map(expr);
            let (start, stop, step) = (part(&node.start), part(&node.stop), part(&node.step));
            let whole = filter(BOUNDED, expr(&node.expr), Vec::new());
            let slice = Expr::Slice(at(node, ast::Slice { expr: whole, start, stop, step }));
            filter(BOUNDED, slice, Vec::new())
        }
        Expr::UnaryOp(node) => {
            let not = matches!(node.op, UnaryOpKind::Not);
            let op = if not { UnaryOpKind::Not } else { UnaryOpKind::Neg };
            Expr::UnaryOp(at(node, ast::UnaryOp { op, expr: expr(&node.expr) }))
        }
        Expr::BinOp(node) => operation(node, expr(&node.left), expr(&node.right)),
        Expr::Compare(node) => {
            let ops = node.ops.iter().map(|op| CompareOp { op: op.op, expr: expr(&op.expr) }).collect();
            Expr::Compare(at(node, Compare { expr: expr(&node.expr), ops }))
        }
        Expr::IfExpr(node) => Expr::IfExpr(at(
            node,
            ast::IfExpr {
                test_expr: expr(&node.test_expr),
                true_expr: expr(&node.true_expr),
                false_expr: node.false_expr.as_ref().map(expr),
            },
        )),
        Expr::Filter(node) => Expr::Filter(at(
            node,
            ast::Filter { name: node.name, expr: node.expr.as_ref().map(expr), args: args(&node.args) },
        )),
        Expr::Test(node) => Expr::Test(at(
            node,
            ast::Test { name: node.name, expr: expr(&node.expr), args: args(&node.args) },
        )),
        Expr::GetAttr(node) => {
            Expr::GetAttr(at(node, ast::GetAttr { expr: expr(&node.expr), name: node.name }))
        }
        Expr::GetItem(node) => Expr::GetItem(at(
            node,
            ast::GetItem { expr: expr(&node.expr), subscript_expr: expr(&node.subscript_expr) },
        )),
        Expr::Call(node) => Expr::Call(call(node)),
        Expr::List(node) => list(node, expr),
        Expr::Tuple(node) => {
            let tuple = Expr::Tuple(at(node, ast::Tuple { items: node.items.iter().map(expr).collect() }));
            filter(BOUNDED, tuple, Vec::new())
        }
        Expr::Map(node) => {
            let (keys, values) =
                (node.keys.iter().map(expr).collect(), node.values.iter().map(expr).collect());
            filter(BOUNDED, Expr::Map(at(node, ast::Map { keys, values })), Vec::new())
        }
    }
}

fn list<'a>(node: &Spanned<ast::List<'a>>, item: impl Fn(&Expr<'a>) -> Expr<'a>) -> Expr<'a> {
    let list = Expr::List(at(node, ast::List { items: node.items.iter().map(item).collect() }));
    filter(BOUNDED, list, Vec::new())
}

/// Bounds the operation on operands that are bounded already.
fn operation<'a>(node: &Spanned<ast::BinOp<'a>>, left: Expr<'a>, right: Expr<'a>) -> Expr<'a> {
    match node.op {
        BinOpKind::Mul => filter(TIMES, left, vec![CallArg::Pos(right)]),
        BinOpKind::Add | BinOpKind::Concat => {
            let (left, right) = (filter(BOUNDED, left, Vec::new()), filter(BOUNDED, right, Vec::new()));
            filter(BOUNDED, Expr::BinOp(at(node, ast::BinOp { op: node.op, left, right })), Vec::new())
        }
        // Their results are numbers, booleans or one of the operands.
        BinOpKind::Eq
        | BinOpKind::Ne
        | BinOpKind::Lt
        | BinOpKind::Lte
        | BinOpKind::Gt
        | BinOpKind::Gte
        | BinOpKind::ScAnd
        | BinOpKind::ScOr
        | BinOpKind::Sub
        | BinOpKind::Div
        | BinOpKind::FloorDiv
        | BinOpKind::Rem
        | BinOpKind::Pow
        | BinOpKind::In => Expr::BinOp(at(node, ast::BinOp { op: node.op, left, right })),
    }
}

/// Keeps the callee's shape: the engine recognises calls of macros, blocks and loops by it.
fn call<'a>(node: &Spanned<ast::Call<'a>>) -> Spanned<ast::Call<'a>> {
    at(node, ast::Call { expr: expr(&node.expr), args: args(&node.args) })
}

fn args<'a>(args: &[CallArg<'a>]) -> Vec<CallArg<'a>> {
    args.iter().map(|one| arg(one, expr)).collect()
}

fn arg<'a>(arg: &CallArg<'a>, value: impl Fn(&Expr<'a>) -> Expr<'a>) -> CallArg<'a> {
    match arg {
        CallArg::Pos(one) => CallArg::Pos(value(one)),
        CallArg::Kwarg(name, one) => CallArg::Kwarg(name, value(one)),
        CallArg::PosSplat(many) => CallArg::PosSplat(expr(many)),
        CallArg::KwargSplat(many) => CallArg::KwargSplat(expr(many)),
    }
}

fn filter<'a>(name: &'a str, value: Expr<'a>, args: Vec<CallArg<'a>>) -> Expr<'a> {
    let span = value.span();
    Expr::Filter(Spanned::new(ast::Filter { name, expr: Some(value), args }, span))
}

fn constant<'a>(value: Value, span: Span) -> Expr<'a> {
    Expr::Const(Spanned::new(ast::Const { value }, span))
}

/// Bounds an expression whose value readers see: a name in it without a value is shown as a gap.
fn given_out<'a>(old: &Expr<'a>) -> Expr<'a> {
    let Some(name) = name_under(old) else { return pieces(old) };
    let there = ast::Test { name: "defined", expr: expr(base(old)), args: Vec::new() };
    let gap = filter(GAP, constant(Value::from(name), old.span()), Vec::new());
    Expr::IfExpr(Spanned::new(
        ast::IfExpr {
            test_expr: Expr::Test(Spanned::new(there, old.span())),
            true_expr: pieces(old),
            false_expr: Some(gap),
        },
        old.span(),
    ))
}

/// Bounds an expression composed of printed pieces, each by itself.
fn pieces<'a>(old: &Expr<'a>) -> Expr<'a> {
    match old {
        Expr::BinOp(node) if matches!(node.op, BinOpKind::Concat) => {
            operation(node, given_out(&node.left), given_out(&node.right))
        }
        // An "or" provides for an empty left side; not for an empty right side.
        Expr::BinOp(node) if matches!(node.op, BinOpKind::ScOr) => {
            operation(node, expr(&node.left), given_out(&node.right))
        }
        Expr::IfExpr(node) => Expr::IfExpr(at(
            node,
            ast::IfExpr {
                test_expr: expr(&node.test_expr),
                true_expr: given_out(&node.true_expr),
                false_expr: node.false_expr.as_ref().map(given_out),
            },
        )),
        Expr::List(node) => list(node, given_out),
        Expr::Filter(node) => {
            let (inner, given) = match node.name {
                // A default provides for a missing field.
                "default" | "d" => (node.expr.as_ref().map(expr), true),
                "format" => (node.expr.as_ref().map(pieces), true),
                _ => (node.expr.as_ref().map(pieces), false),
            };
            let args = if given {
                node.args.iter().map(|one| arg(one, given_out)).collect()
            } else {
                args(&node.args)
            };
            Expr::Filter(at(node, ast::Filter { name: node.name, expr: inner, args }))
        }
        Expr::Var(_)
        | Expr::Const(_)
        | Expr::Slice(_)
        | Expr::UnaryOp(_)
        | Expr::BinOp(_)
        | Expr::Compare(_)
        | Expr::Test(_)
        | Expr::GetAttr(_)
        | Expr::GetItem(_)
        | Expr::Call(_)
        | Expr::Tuple(_)
        | Expr::Map(_) => expr(old),
    }
}

/// The expression under its filters.
fn base<'e, 'a>(mut old: &'e Expr<'a>) -> &'e Expr<'a> {
    while let Expr::Filter(node) = old {
        let Some(inner) = &node.expr else { return old };
        old = inner;
    }
    old
}

/// The name that an expression consists of, unless a filter gives a default for it.
fn name_under(old: &Expr<'_>) -> Option<String> {
    let mut outer = old;
    while let Expr::Filter(node) = outer {
        if matches!(node.name, "default" | "d") {
            return None;
        }
        outer = node.expr.as_ref()?;
    }
    let path = path(outer)?;
    Some(path.strip_prefix("fields.").map_or_else(|| path.clone(), ToOwned::to_owned))
}

/// Joins a chain of names: `fields.name`.
fn path(old: &Expr<'_>) -> Option<String> {
    match old {
        Expr::Var(node) => Some(node.id.to_owned()),
        Expr::GetAttr(node) => Some(format!("{}.{}", path(&node.expr)?, node.name)),
        Expr::GetItem(node) => {
            let key = &node.subscript_expr;
            let key = if let Expr::Const(key) = key { key.value.to_string() } else { path(key)? };
            Some(format!("{}.{key}", path(&node.expr)?))
        }
        Expr::Const(_)
        | Expr::Slice(_)
        | Expr::UnaryOp(_)
        | Expr::BinOp(_)
        | Expr::Compare(_)
        | Expr::IfExpr(_)
        | Expr::Filter(_)
        | Expr::Test(_)
        | Expr::Call(_)
        | Expr::List(_)
        | Expr::Tuple(_)
        | Expr::Map(_) => None,
    }
}
