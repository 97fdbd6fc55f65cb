"""Reads the settings of clients from a Python file by parsing it; nothing in it is run.

Statements are followed from top to bottom, functions and classes after the module around them. Read are calls that make
a client (`Producer(conf)`, `KafkaConsumer("orders", group_id="g")`), and dicts with names of settings that are given a
name or returned. A dict that such a call takes is listed once, as that client.
Keeps: what the file does not show is `Computed` or `elsewhere`, never a default.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from semel.check.gathering.python_library import LIBRARIES, OWN_PACKAGE, imports_of, library_by_spelling, library_of
from semel.check.gathering.python_values import DictValue, Names, calls_in, dict_of_arguments, dotted, value_of
from semel.check.gathering.written import Written
from semel.clients.setting_names import Computed, Role
from semel.errors import ConfigError

SUFFIXES = (".py", ".pyw", ".pyi")


def parse_python(text: str, path: str) -> ast.Module:
    """Parse the text; ConfigError names the line and shows nothing of it."""
    try:
        return ast.parse(text)
    except SyntaxError as error:
        where = f"{path}:{error.lineno or 1}"
        raise ConfigError(f"{where}: this is not Python", you_want="a file that Python can import") from None
    except (ValueError, MemoryError, RecursionError):
        raise ConfigError(f"{path} cannot be parsed as Python") from None


def read_python(tree: ast.Module, path: str, is_settings: Callable[[Iterable[str]], bool]) -> list[Written]:
    """Everything in the file that makes a client or is a dict for which `is_settings` is true of its names."""
    reader = _Reader(is_settings, imports_of(tree))
    try:
        reader.run(tree.body, {}, sometimes=False)
        reader.run_later()
    except RecursionError:
        raise ConfigError(f"{path} is nested too deeply to be read") from None
    return reader.found()


@dataclass(slots=True)
class _Reader:
    is_settings: Callable[[Iterable[str]], bool]
    origins: dict[str, str]
    clients: list[Written] = field(default_factory=list)
    named: list[tuple[str, DictValue]] = field(default_factory=list)
    taken: set[int] = field(default_factory=set)  # serial numbers of the dicts that a call has taken
    later: list[tuple[ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef, Names]] = field(default_factory=list)

    def run(self, body: Sequence[ast.stmt], names: Names, *, sometimes: bool, function: str = "") -> None:
        """Follow statements in their order; `sometimes` when it is not sure that they happen."""
        for statement in body:
            # Calls first: `conf = make(conf)` calls with what `conf` was before this statement.
            for call in calls_in(statement):
                self._call(call, names, sometimes=sometimes)
            for walrus in _walruses(statement):
                names[walrus.target.id] = Computed(f"set at line {walrus.lineno}")
            match statement:
                case ast.Return(value=ast.expr() as value) if function:
                    self._remember(f"{function}()", value_of(value, names))
                case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                    self.later.append((statement, names))
                case ast.Assign() | ast.AnnAssign() | ast.AugAssign() | ast.Delete():
                    self._change(statement, names, sometimes=sometimes)
                case _:
                    self._blocks(statement, names, sometimes=sometimes, function=function)

    def _change(self, statement: ast.stmt, names: Names, *, sometimes: bool) -> None:
        match statement:
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    self._assign(target, value_of(value, names), names, sometimes=sometimes)
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                self._assign(target, value_of(value, names), names, sometimes=sometimes)
            case ast.AugAssign(target=target, op=operator, value=value):
                owner = value_of(target, names)
                if isinstance(owner, DictValue) and isinstance(operator, ast.BitOr):
                    _update(owner, value_of(value, names), statement.lineno, sometimes=sometimes)
                else:
                    self._assign(target, Computed(f"changed at line {statement.lineno}"), names, sometimes=sometimes)
            case ast.Delete(targets=targets):
                for target in targets:
                    self._assign(target, Computed(f"removed at line {statement.lineno}"), names, sometimes=False)

    def _blocks(self, statement: ast.stmt, names: Names, *, sometimes: bool, function: str) -> None:
        match statement:
            case ast.With(body=body) | ast.AsyncWith(body=body):
                self.run(body, names, sometimes=sometimes, function=function)
            # `if __name__ == "__main__"` is what happens when the file is run, which is what is asked about.
            case ast.If(test=ast.Compare(left=ast.Name(id="__name__")), body=body):
                self.run(body, names, sometimes=sometimes, function=function)
            case _:
                if isinstance(statement, ast.For | ast.AsyncFor):
                    self._assign(statement.target, Computed("the variable of a loop"), names, sometimes=True)
                # Each branch may be skipped, a loop's body too, so what is set inside holds only sometimes.
                for body in _branches(statement):
                    self.run(body, names, sometimes=True, function=function)

    def run_later(self) -> None:
        """Functions run when the module around them is complete; the methods of a class share what is in `self`."""
        while self.later:
            # In their order, since what `__init__` sets is there for the methods behind it.
            node, around = self.later.pop(0)
            # A function changes dicts of its own here: which one runs first is not known.
            names = {name: value.copy() if isinstance(value, DictValue) else value for name, value in around.items()}
            if isinstance(node, ast.ClassDef):
                self.run(node.body, names, sometimes=False)
                continue
            given = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
            names |= {one.arg: Computed(f"an argument at line {node.lineno}") for one in given}
            self.run(node.body, names, sometimes=False, function=node.name)
            # What `__init__` puts into `self` is there for the methods that come after it.
            around |= {name: value for name, value in names.items() if name.startswith("self.")}

    def _assign(self, target: ast.expr, value: object, names: Names, *, sometimes: bool) -> None:
        unsure = Computed(f"set at line {target.lineno} only sometimes")
        match target:
            case ast.Name() | ast.Attribute():
                name = dotted(target)
                names[name] = unsure if sometimes else value
                self._remember(name, value)
            case ast.Subscript(value=inner, slice=key):
                owner, entry = value_of(inner, names), value_of(key, names)
                if not isinstance(owner, DictValue) and dotted(inner):
                    # Where it comes from is not shown, but what is put into it from here on is.
                    owner = DictValue(
                        line=target.lineno, elsewhere=f"the file does not show what {dotted(inner)} holds"
                    )
                    names[dotted(inner)] = owner
                if isinstance(owner, DictValue) and isinstance(entry, str):
                    owner.put(entry, unsure if sometimes else value, target.lineno)
                elif isinstance(owner, DictValue):
                    owner.lose_track(f"line {target.lineno} sets a name that the file does not show")
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                for part in parts:
                    self._assign(part, Computed(f"set at line {part.lineno}"), names, sometimes=sometimes)

    def _remember(self, name: str, value: object) -> None:
        if name and isinstance(value, DictValue):
            self.named.append((name, value))

    def _call(self, call: ast.Call, names: Names, *, sometimes: bool) -> None:
        if isinstance(call.func, ast.Attribute):
            owner = value_of(call.func.value, names)
            if isinstance(owner, DictValue):
                _change_by_method(owner, call.func.attr, call, names, sometimes=sometimes)
                return
        origin = self._origin(call.func)
        package, shown = origin.partition(".")[0], origin.rpartition(".")[2]
        # Neither is judged: semel's own classes refuse wrong settings, and an admin client sends and reads no records.
        # Their dicts are taken all the same, or they would be judged as if no call had them.
        if package == OWN_PACKAGE or "AdminClient" in shown:
            self._take(call, names)
            return
        library, because = library_of(package, shown)
        role = next((role for role in Role if shown.endswith(role.capitalize())), None)
        if role is None or not library:
            return
        # confluent-kafka takes a dict; the first arguments of the others are topics, and their settings are keywords.
        dicts = call.args if library == "librdkafka" else []
        made = dict_of_arguments(call, dicts, names)
        # A class of this name without any settings is hardly a client.
        if not call.args and not call.keywords:
            return
        argument = dotted(dicts[0]) if dicts else ""
        self._take(call, names)
        self.clients.append(
            _written(
                made, f"{shown}({argument or '...'})", library=library, because=because, role=role, line=call.lineno
            )
        )

    def _origin(self, function: ast.expr) -> str:
        name = dotted(function)
        first, _, rest = name.partition(".")
        found = self.origins.get(first, first)
        return f"{found}.{rest}" if rest else found

    def _take(self, call: ast.Call, names: Names) -> None:
        values = [value_of(each, names) for each in [*call.args, *(one.value for one in call.keywords)]]
        for value in values:
            if isinstance(value, DictValue):
                self.taken |= value.made_of

    def found(self) -> list[Written]:
        """The clients, then the dicts that no call has taken and that hold settings; each with a name of its own."""
        loose: dict[int, tuple[str, DictValue]] = {}
        for name, value in self.named:
            # One dict may have several names: the first one stands for it.
            if value.serial not in self.taken and self.is_settings(value.values):
                loose.setdefault(value.serial, (name, value))
        imported = {
            LIBRARIES[top] for origin in self.origins.values() if (top := origin.partition(".")[0]) in LIBRARIES
        }
        rest = []
        for name, value in loose.values():
            library, because = library_by_spelling(value.values, imported)
            rest.append(_written(value, name, library=library, because=because, role=None, line=value.line))
        return _numbered([*self.clients, *rest])


def _update(owner: DictValue, more: object, line: int, *, sometimes: bool) -> None:
    if sometimes and isinstance(more, DictValue):
        unsure = Computed(f"set at line {line} only sometimes")
        more = replace(more, values=dict.fromkeys(more.values, unsure))
    owner.take_in(more, line)


def _change_by_method(owner: DictValue, name: str, call: ast.Call, names: Names, *, sometimes: bool) -> None:
    key = value_of(call.args[0], names) if call.args else None
    match name:
        case "update":
            _update(owner, dict_of_arguments(call, call.args, names), call.lineno, sometimes=sometimes)
        case "setdefault" if isinstance(key, str) and len(call.args) > 1 and key not in owner.values:
            unsure = Computed(f"set at line {call.lineno} only sometimes")
            found = value_of(call.args[1], names)
            owner.put(key, unsure if sometimes or owner.elsewhere else found, call.lineno)
        case "pop" if isinstance(key, str):
            owner.put(key, Computed(f"removed at line {call.lineno}"), call.lineno)
        case "clear" | "popitem":
            owner.lose_track(f"line {call.lineno} takes settings out")


def _walruses(statement: ast.stmt) -> list[ast.NamedExpr]:
    return [node for node in ast.walk(statement) if isinstance(node, ast.NamedExpr)]


def _branches(statement: ast.stmt) -> list[list[ast.stmt]]:
    """The blocks of a statement that may or may not run."""
    blocks = [getattr(statement, name, []) for name in ("body", "orelse", "finalbody")]
    blocks += [handler.body for handler in getattr(statement, "handlers", [])]
    blocks += [case.body for case in getattr(statement, "cases", [])]
    return blocks


def _written(made: DictValue, name: str, *, library: str, because: str, role: Role | None, line: int) -> Written:
    values = {
        key: Computed(f"a dict at line {made.lines[key]}") if isinstance(value, DictValue) else value
        for key, value in made.values.items()
    }
    return Written(
        values=values,
        line=line,
        lines=dict(made.lines),
        name=name,
        library=library,
        because=because,
        role=role,
        elsewhere=made.elsewhere,
    )


def _numbered(every: Sequence[Written]) -> list[Written]:
    seen: dict[str, int] = {}
    numbered = []
    for one in every:
        seen[one.name] = seen.get(one.name, 0) + 1
        numbered.append(replace(one, name=f"{one.name}[{seen[one.name]}]") if seen[one.name] > 1 else one)
    return numbered
