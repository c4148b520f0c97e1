//! The size of the product's code, which may only fall: `tidy.toml` holds the numbers.
//!
//! A number that rises is a decision, and its commit says why. `UPDATE_TIDY=1 cargo test -p
//! relight-testkit --test tidy` writes the numbers anew.

#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot be set up has failed"
)]

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use proc_macro2::{Delimiter, Span, TokenStream, TokenTree};
use syn::visit::{self, Visit};

/// Each crate of the product, and where its code is.
const CRATES: [(&str, &str); 10] = [
    ("redact", "crates/redact/src"),
    ("core", "crates/core/src"),
    ("store", "crates/store/src"),
    ("runtime", "crates/runtime/src"),
    ("server", "crates/server/src"),
    ("cli", "crates/cli/src"),
    ("relight", "crates/relight/src"),
    ("sdk", "crates/sdk/src"),
    ("python", "python/src"),
    ("typescript", "typescript/native/src"),
];
const NUMBERS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/tidy.toml");
/// A function of so few lines that is called once is a hop without a gain.
const ARCHITECTURE_WORDS_MAX: usize = 2_500;
const SMALL_LINES_MAX: usize = 3;

/// One file of the product, without its tests.
struct Source {
    krate: &'static str,
    path: PathBuf,
    lines: usize,
    types: Vec<String>,
    functions: Vec<Function>,
    /// State of the whole process.
    statics: Vec<String>,
    /// What it names of the crate's root: modules, and items that the root shows.
    uses: BTreeSet<String>,
    /// Names that it shows of others with `pub use`, each with the first name of its path.
    shows: Vec<(String, String)>,
    /// Public items of its own.
    public_items: Vec<String>,
    /// How often each word stands in it.
    words: HashMap<String, usize>,
}

struct Function {
    name: String,
    lines: usize,
    is_private: bool,
}

#[test]
fn the_numbers_only_fall() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let of_crate = |(krate, folder): (&'static str, &str)| sources_of(krate, &root.join(folder));
    let sources: Vec<Source> = CRATES.into_iter().flat_map(of_crate).collect();
    let found = measure(&sources);
    if is_update() {
        let lines = found
            .iter()
            .map(|(name, (number, _))| format!("{name} = {number}\n"));
        let text: String = lines.collect();
        std::fs::write(NUMBERS, format!("# May only fall; see tidy.rs.\n{text}")).unwrap();
    }
    let told = std::fs::read_to_string(NUMBERS).unwrap();
    let told: BTreeMap<String, usize> = told
        .lines()
        .filter_map(|line| line.split_once(" = "))
        .map(|(name, number)| (name.to_owned(), number.parse().unwrap()))
        .collect();
    let mut wrong = Vec::new();
    for (name, (number, where_)) in &found {
        let allowed = told.get(name).copied().unwrap_or(0);
        let is_stale = number + number / 50 + 10 < allowed;
        if *number > allowed {
            wrong.push(format!(
                "{name} is {number}, {allowed} are allowed: {where_}"
            ));
        } else if is_stale {
            wrong.push(format!(
                "{name} fell from {allowed} to {number}: write the new number down"
            ));
        }
    }
    assert!(
        wrong.is_empty(),
        "UPDATE_TIDY=1 writes new numbers\n{}",
        wrong.join("\n")
    );
}

/// ARCHITECTURE.md stays short, and every test that it names exists.
#[test]
fn the_architecture_is_short_and_names_tests_that_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let text = std::fs::read_to_string(root.join("ARCHITECTURE.md")).unwrap();
    let words = text.split_whitespace().count();
    assert!(words <= ARCHITECTURE_WORDS_MAX, "{words} words");
    let quoted = text.split('`').skip(1).step_by(2);
    let is_test = |name: &&str| name.matches('_').count() >= 4 && !name.contains(['/', '.', ' ']);
    let named: Vec<&str> = quoted.filter(is_test).collect();
    assert!(named.len() >= 10, "{named:?}");
    let sources = rust_files(&root.join("crates"));
    for name in named {
        let definition = format!("fn {name}(");
        assert!(
            sources.iter().any(|source| source.contains(&definition)),
            "no test {name}"
        );
    }
}

/// Modules that are only compiled with this may name what only Linux has.
const SUPERVISION: &str = "#[cfg(all(target_os = \"linux\", feature = \"supervision\"))]";
/// So may the doors, and the file that chooses between them.
const DOORS: [&str; 3] = ["os/linux/", "os/mod.rs", "sqlite/linux.rs"];
/// Files, calls and types that only Linux has.
const LINUX: [&str; 9] = [
    "/proc",
    "pidfd",
    "inotify",
    "eventfd",
    "timerfd",
    "memfd",
    "epoll",
    "Boottime",
    "abstract_name",
];

#[test]
fn only_the_doors_and_supervision_name_what_only_linux_has() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let modules = |file: &str| {
        let text = std::fs::read_to_string(crates.join("runtime/src").join(file)).unwrap();
        let folder = file.trim_end_matches("lib.rs").trim_end_matches("mod.rs");
        let lines: Vec<&str> = text.lines().collect();
        let behind = lines.windows(2).filter(|pair| pair[0] == SUPERVISION);
        let names = behind.filter_map(|pair| pair[1].strip_prefix("pub mod ")?.strip_suffix(';'));
        names
            .map(|name| format!("runtime/src/{folder}{name}"))
            .collect::<Vec<_>>()
    };
    let supervision = [modules("lib.rs"), modules("operations/mod.rs")].concat();
    assert!(supervision.len() >= 10, "{supervision:?}");
    let mut found = Vec::new();
    for krate in ["core", "redact", "store", "runtime", "relight"] {
        for path in rust_paths(&crates.join(krate).join("src")) {
            let name = path.strip_prefix(&crates).unwrap().to_str().unwrap();
            let is_module = |module: &String| {
                let rest = name.strip_prefix(module.as_str());
                rest.is_some_and(|rest| rest.starts_with(['/', '.']))
            };
            if supervision.iter().any(is_module) || DOORS.iter().any(|door| name.contains(door)) {
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap();
            let code = text
                .lines()
                .filter(|line| !line.trim_start().starts_with("//"));
            let linux = code.filter(|line| LINUX.iter().any(|word| line.contains(word)));
            found.extend(linux.map(|line| format!("{name}: {}", line.trim())));
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

fn rust_files(folder: &Path) -> Vec<String> {
    let paths = rust_paths(folder).into_iter();
    paths
        .map(|path| std::fs::read_to_string(path).unwrap())
        .collect()
}

fn rust_paths(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let paths = entries.flat_map(|entry| match entry.extension() {
        Some(end) if end == "rs" => vec![entry],
        _ if entry.is_dir() => rust_paths(&entry),
        _ => Vec::new(),
    });
    paths.collect()
}

/// PostgreSQL, TLS, HTTP and MCP.
const NETWORK: [&str; 10] = [
    "axum",
    "hyper",
    "reqwest",
    "ring",
    "rmcp",
    "rustls",
    "rustls-native-certs",
    "tokio-postgres",
    "tokio-rustls",
    "ureq",
];

#[test]
fn the_library_without_features_has_no_network() {
    for package in [
        "relight-redact",
        "relight-core",
        "relight-store",
        "relight-runtime",
        "relight",
    ] {
        let without = dependencies(package, &["--no-default-features"]);
        assert!(without.contains("serde_json"), "{package}: {without:?}");
        let network: Vec<_> = NETWORK
            .iter()
            .filter(|name| without.contains(**name))
            .collect();
        assert!(
            network.is_empty(),
            "{package} without features needs {network:?}"
        );
    }
    let all = dependencies("relight-cli", &[]);
    assert!(
        all.contains("tokio-postgres") && all.contains("rmcp") && all.contains("ureq"),
        "{all:?}"
    );
}

/// The names of all that it is built of.
#[expect(
    clippy::disallowed_methods,
    reason = "a tool of the test, not a part of the product"
)]
fn dependencies(package: &str, options: &[&str]) -> BTreeSet<String> {
    let mut cargo = std::process::Command::new(env!("CARGO"));
    cargo.args([
        "tree",
        "--offline",
        "--edges",
        "normal",
        "--prefix",
        "none",
        "--package",
        package,
    ]);
    // Whoever builds the whole workspace with the same features wants to know of this package alone.
    cargo
        .args(options)
        .env("CARGO_RESOLVER_FEATURE_UNIFICATION", "selected");
    let answer = cargo
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert!(
        answer.status.success(),
        "{}",
        String::from_utf8_lossy(&answer.stderr)
    );
    let text = String::from_utf8(answer.stdout).unwrap();
    text.lines()
        .filter_map(|line| line.split(' ').next())
        .map(str::to_owned)
        .collect()
}

#[expect(
    clippy::disallowed_methods,
    reason = "a test asks its caller, not the product's user"
)]
fn is_update() -> bool {
    std::env::var_os("UPDATE_TIDY").is_some_and(|value| value == "1")
}

/// Each number, with an example.
fn measure(sources: &[Source]) -> BTreeMap<String, (usize, String)> {
    let mut found = BTreeMap::new();
    let mut tell = |name: &str, number: usize, example: String| {
        found.insert(name.to_owned(), (number, example));
    };
    for (krate, _) in CRATES {
        let files = || sources.iter().filter(move |source| source.krate == krate);
        tell(
            &format!("lines_{krate}"),
            files().map(|source| source.lines).sum(),
            String::new(),
        );
        let cycle = modules_in_cycles(files());
        tell(
            &format!("modules_in_a_cycle_{krate}"),
            cycle.len(),
            cycle.join(", "),
        );
        let statics = files().flat_map(|source| {
            source
                .statics
                .iter()
                .map(|name| format!("{} {name}", source.path.display()))
        });
        let statics: Vec<String> = statics.collect();
        tell(
            &format!("mutable_statics_{krate}"),
            statics.len(),
            statics.join(", "),
        );
    }
    // The facade: whoever embeds the product depends on each of these names.
    let facade = sources.iter().filter(|source| source.krate == "relight");
    let shown: Vec<&str> = facade
        .flat_map(|source| {
            let shows = source.shows.iter().map(|(name, _)| name);
            shows.chain(&source.public_items).map(String::as_str)
        })
        .collect();
    tell("public_items_relight", shown.len(), shown.join(", "));
    let longest = sources.iter().max_by_key(|source| source.lines).unwrap();
    tell(
        "lines_of_a_file",
        longest.lines,
        longest.path.display().to_string(),
    );
    let functions = sources.iter().flat_map(|source| &source.functions);
    let longest = functions.max_by_key(|function| function.lines).unwrap();
    tell("lines_of_a_function", longest.lines, longest.name.clone());
    let mut types: BTreeMap<&str, usize> = BTreeMap::new();
    for name in sources.iter().flat_map(|source| &source.types) {
        *types.entry(name).or_default() += 1;
    }
    let twice: Vec<&str> = types
        .into_iter()
        .filter(|(_, n)| *n > 1)
        .map(|(name, _)| name)
        .collect();
    tell("type_names_used_twice", twice.len(), twice.join(", "));
    let small = small_helpers(sources);
    tell("small_functions_called_once", small.len(), small.join(", "));
    found
}

/// Private functions of a few lines whose name stands in their crate only where they are and once more.
fn small_helpers(sources: &[Source]) -> Vec<String> {
    let mut words: HashMap<(&str, &str), usize> = HashMap::new();
    for source in sources {
        for (word, count) in &source.words {
            *words.entry((source.krate, word)).or_default() += count;
        }
    }
    let is_helper = |source: &Source, function: &Function| {
        let count = words.get(&(source.krate, function.name.as_str()));
        function.is_private && function.lines <= SMALL_LINES_MAX + 2 && count == Some(&2)
    };
    let helpers = sources.iter().flat_map(|source| {
        source
            .functions
            .iter()
            .filter(|function| is_helper(source, function))
    });
    helpers.map(|function| function.name.clone()).collect()
}

/// The top-level modules of a crate that need themselves through others. An item that the root shows counts
/// as its module.
fn modules_in_cycles<'s>(sources: impl Iterator<Item = &'s Source>) -> Vec<String> {
    let sources: Vec<&Source> = sources.collect();
    let is_root = |source: &&&Source| source.path == Path::new("lib.rs");
    let root = sources.iter().find(is_root);
    let shown: HashMap<&str, &str> = root
        .iter()
        .flat_map(|root| &root.shows)
        .map(|(name, module)| (name.as_str(), module.as_str()))
        .collect();
    let mut needs: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for source in &sources {
        let module = source.path.iter().next().unwrap().to_string_lossy();
        let module = module.trim_end_matches(".rs").to_owned();
        let used = source.uses.iter().map(String::as_str);
        let others = used.map(|name| shown.get(name).copied().unwrap_or(name));
        let others = others.filter(|used| *used != module).map(str::to_owned);
        needs.entry(module.clone()).or_default().extend(others);
    }
    let reaches: BTreeMap<&String, BTreeSet<&String>> = needs
        .keys()
        .map(|module| (module, reached(&needs, module)))
        .collect();
    let in_a_cycle = needs
        .keys()
        .filter(|module| reaches[module].contains(module));
    in_a_cycle.cloned().collect()
}

fn reached<'n>(needs: &'n BTreeMap<String, BTreeSet<String>>, from: &str) -> BTreeSet<&'n String> {
    let mut found = BTreeSet::new();
    let mut open: Vec<&str> = vec![from];
    while let Some(module) = open.pop() {
        for (other, _) in needs[module]
            .iter()
            .filter_map(|other| needs.get_key_value(other))
        {
            if found.insert(other) {
                open.push(other);
            }
        }
    }
    found
}

fn sources_of(krate: &'static str, root: &Path) -> Vec<Source> {
    let mut open = vec![root.to_owned()];
    let (mut found, mut tests) = (Vec::new(), Vec::new());
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().path())
        {
            if entry.is_dir() {
                open.push(entry);
            } else if entry.extension().is_some_and(|end| end == "rs") {
                let (source, modules) = read(krate, root, &entry);
                let folder = match entry.file_stem().unwrap().to_str().unwrap() {
                    "mod" | "lib" => entry.parent().unwrap().to_owned(),
                    stem => entry.with_file_name(stem),
                };
                let below =
                    |module: String| folder.join(module).strip_prefix(root).unwrap().to_owned();
                tests.extend(modules.into_iter().map(below));
                found.push(source);
            }
        }
    }
    let is_test = |path: &Path| {
        tests
            .iter()
            .any(|test| path.starts_with(test) || path == test.with_extension("rs"))
    };
    found.retain(|source| !is_test(&source.path));
    found
}

/// The file without its tests, and the modules that are only compiled for tests.
fn read(krate: &'static str, root: &Path, path: &Path) -> (Source, Vec<String>) {
    let text = std::fs::read_to_string(path).unwrap();
    let file = syn::parse_file(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut seen = Seen::default();
    seen.visit_file(&file);
    let is_cut = |line: &usize| {
        seen.cuts
            .iter()
            .any(|(from, to)| (*from..=*to).contains(line))
    };
    let (mut lines, mut words, mut uses) = (BTreeSet::new(), HashMap::new(), BTreeSet::new());
    let place = path.strip_prefix(root).unwrap();
    let tokens: TokenStream = text.parse().unwrap();
    walk(
        tokens,
        modules_above(place),
        &[],
        &mut |tree, is_of_root| {
            let (from, to) = (tree.span().start().line, tree.span().end().line);
            if is_cut(&from) {
                return;
            }
            lines.extend(from..=to);
            if let TokenTree::Ident(word) = tree {
                *words.entry(word.to_string()).or_default() += 1;
                if is_of_root {
                    uses.insert(word.to_string());
                }
            }
        },
    );
    let (mut shows, mut public_items) = (Vec::new(), Vec::new());
    for item in &file.items {
        match item {
            syn::Item::Use(item) if is_public(&item.vis) => shown_names(&item.tree, "", &mut shows),
            item => public_items.extend(public_name(item)),
        }
    }
    let functions = seen.functions.into_iter().filter(|(line, _)| !is_cut(line));
    let types = seen.types.into_iter().filter(|(line, _)| !is_cut(line));
    let statics = seen.statics.into_iter().filter(|(line, _)| !is_cut(line));
    let source = Source {
        krate,
        path: place.to_owned(),
        lines: lines.len(),
        types: types.map(|(_, name)| name).collect(),
        functions: functions.map(|(_, function)| function).collect(),
        statics: statics.map(|(_, name)| name).collect(),
        uses,
        shows,
        public_items,
        words,
    };
    (source, seen.test_modules)
}

/// How many modules are around what is written in this file: `super` so often is the root.
fn modules_above(place: &Path) -> usize {
    let names = place.with_extension("");
    let is_own = |name: &&std::ffi::OsStr| !["mod", "lib", "main"].iter().any(|own| *name == *own);
    names.iter().filter(is_own).count()
}

fn is_public(visibility: &syn::Visibility) -> bool {
    matches!(visibility, syn::Visibility::Public(_))
}

/// The names that a `use` makes, each with the first name of its path that is no `self` or `crate`.
fn shown_names(tree: &syn::UseTree, first: &str, found: &mut Vec<(String, String)>) {
    let begin = |name: &syn::Ident| match first {
        "" | "self" | "crate" => name.to_string(),
        first => first.to_owned(),
    };
    match tree {
        syn::UseTree::Path(path) => shown_names(&path.tree, &begin(&path.ident), found),
        syn::UseTree::Name(name) => found.push((name.ident.to_string(), begin(&name.ident))),
        syn::UseTree::Rename(name) => found.push((name.rename.to_string(), begin(&name.ident))),
        syn::UseTree::Glob(_) => found.push(("*".to_owned(), first.to_owned())),
        syn::UseTree::Group(group) => {
            for tree in &group.items {
                shown_names(tree, first, found);
            }
        }
    }
}

fn public_name(item: &syn::Item) -> Option<String> {
    let (visibility, name) = match item {
        syn::Item::Const(item) => (&item.vis, &item.ident),
        syn::Item::Enum(item) => (&item.vis, &item.ident),
        syn::Item::Fn(item) => (&item.vis, &item.sig.ident),
        syn::Item::Mod(item) => (&item.vis, &item.ident),
        syn::Item::Static(item) => (&item.vis, &item.ident),
        syn::Item::Struct(item) => (&item.vis, &item.ident),
        syn::Item::Trait(item) => (&item.vis, &item.ident),
        syn::Item::Type(item) => (&item.vis, &item.ident),
        _ => return None,
    };
    is_public(visibility).then(|| name.to_string())
}

/// Whether these tokens lead to the root of the crate from inside so many modules.
fn leads_to_root(before: &[String], modules: usize) -> bool {
    let is_start = |word: &str, path: &[String]| {
        path.len() == 3 && path[0] == word && path[1] == ":" && path[2] == ":"
    };
    let start = before.len().saturating_sub(3);
    let supers = before
        .rchunks(3)
        .take_while(|path| is_start("super", path))
        .count();
    is_start("crate", &before[start..]) || (modules > 0 && supers == modules)
}

/// Each token but comments, and whether it names something of the crate's root: it comes after `crate::`,
/// or after `super::` as often as there are modules around it. Each name of a list (`crate::{a, b}`) comes
/// after what is before the list.
fn walk(
    stream: TokenStream,
    modules: usize,
    list_of: &[String],
    tell: &mut impl FnMut(&TokenTree, bool),
) {
    let trees: Vec<TokenTree> = stream.into_iter().collect();
    let mut before: Vec<String> = list_of.to_vec();
    for (at, tree) in trees.iter().enumerate() {
        let is_doc = |tree: &TokenTree| {
            matches!(tree, TokenTree::Group(group)
            if group.delimiter() == Delimiter::Bracket && group.stream().to_string().starts_with("doc"))
        };
        let begins_doc = matches!(tree, TokenTree::Punct(punct) if punct.as_char() == '#')
            && trees[at + 1..].iter().take(2).any(is_doc);
        if is_doc(tree) || begins_doc {
            continue;
        }
        match tree {
            TokenTree::Group(group) => {
                for span in [group.span_open(), group.span_close()] {
                    tell(&marker(span), false);
                }
                let is_module = before.len() >= 2 && before[before.len() - 2] == "mod";
                let is_list = before.last().is_some_and(|word| word == ":");
                let inside = modules + usize::from(is_module);
                walk(
                    group.stream(),
                    inside,
                    if is_list { &before } else { &[] },
                    tell,
                );
                before.clear();
            }
            TokenTree::Punct(comma) if comma.as_char() == ',' => {
                tell(tree, false);
                before = list_of.to_vec();
            }
            _ => {
                tell(tree, leads_to_root(&before, modules));
                before.push(tree.to_string());
            }
        }
    }
}

fn marker(span: Span) -> TokenTree {
    let mut punct = proc_macro2::Punct::new(';', proc_macro2::Spacing::Alone);
    punct.set_span(span);
    punct.into()
}

#[derive(Default)]
struct Seen {
    /// First and last lines of what is only compiled for tests.
    cuts: Vec<(usize, usize)>,
    test_modules: Vec<String>,
    /// Where each begins, and what it is.
    types: Vec<(usize, String)>,
    functions: Vec<(usize, Function)>,
    statics: Vec<(usize, String)>,
}

impl Seen {
    fn cut(&mut self, attributes: &[syn::Attribute], item: &dyn Fn() -> Span) {
        let is_test = |attribute: &syn::Attribute| {
            let text = match &attribute.meta {
                syn::Meta::List(list) if list.path.is_ident("cfg") => list.tokens.to_string(),
                _ => return false,
            };
            text == "test" || text.starts_with("all (test")
        };
        if attributes.iter().any(is_test) {
            let span = item();
            let first = attributes.first().map_or(span, syn::spanned::Spanned::span);
            self.cuts.push((first.start().line, span.end().line));
        }
    }

    fn function(&mut self, name: &syn::Ident, item: Span, block: Span, is_private: bool) {
        let lines = block.end().line - block.start().line + 1;
        let name = name.to_string();
        self.functions.push((
            item.start().line,
            Function {
                name,
                lines,
                is_private,
            },
        ));
    }
}

/// Whether a static is written after the program has begun. What `LazyLock` computes is a constant.
fn can_change(item: &syn::ItemStatic) -> bool {
    let mut changes = Changes(matches!(item.mutability, syn::StaticMutability::Mut(_)));
    changes.visit_type(&item.ty);
    changes.0
}

/// Whether a type is one that is changed through a shared reference.
struct Changes(bool);

impl<'a> Visit<'a> for Changes {
    fn visit_ident(&mut self, word: &'a syn::Ident) {
        let word = word.to_string();
        let holders = ["OnceLock", "OnceCell", "Mutex", "RwLock", "Cell", "RefCell"];
        self.0 |= holders.contains(&word.as_str()) || word.starts_with("Atomic");
    }
}

impl<'a> Visit<'a> for Seen {
    fn visit_item(&mut self, item: &'a syn::Item) {
        let attributes = match item {
            syn::Item::Mod(item) => &item.attrs,
            syn::Item::Fn(item) => &item.attrs,
            syn::Item::Impl(item) => &item.attrs,
            syn::Item::Struct(item) => &item.attrs,
            syn::Item::Enum(item) => &item.attrs,
            syn::Item::Use(item) => &item.attrs,
            syn::Item::Const(item) => &item.attrs,
            _ => &Vec::new(),
        };
        let cuts = self.cuts.len();
        self.cut(attributes, &|| syn::spanned::Spanned::span(item));
        if let (true, syn::Item::Mod(module)) = (self.cuts.len() > cuts, item)
            && module.content.is_none()
        {
            self.test_modules.push(module.ident.to_string());
        }
        let line = syn::spanned::Spanned::span(item).start().line;
        match item {
            syn::Item::Struct(item) => self.types.push((line, item.ident.to_string())),
            syn::Item::Enum(item) => self.types.push((line, item.ident.to_string())),
            syn::Item::Static(item) if can_change(item) => {
                self.statics.push((line, item.ident.to_string()));
            }
            syn::Item::Macro(item) if item.mac.path.is_ident("thread_local") => {
                self.statics.push((line, "thread_local".to_owned()));
            }
            _ => {}
        }
        visit::visit_item(self, item);
    }

    fn visit_item_fn(&mut self, item: &'a syn::ItemFn) {
        let span = syn::spanned::Spanned::span(item);
        let block = syn::spanned::Spanned::span(&*item.block);
        let is_private = matches!(item.vis, syn::Visibility::Inherited);
        self.function(&item.sig.ident, span, block, is_private);
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'a syn::ImplItemFn) {
        let span = syn::spanned::Spanned::span(item);
        let block = syn::spanned::Spanned::span(&item.block);
        // Those of a trait have no word of their own about it; they are called by others.
        let is_private = matches!(item.vis, syn::Visibility::Inherited);
        self.function(&item.sig.ident, span, block, is_private);
        visit::visit_impl_item_fn(self, item);
    }
}
