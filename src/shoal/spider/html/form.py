"""Forms: fill one in, and get the request that a browser would send (WHATWG, form submission).

Not supported: file uploads, and what scripts change before they submit a form. Controls belong to the form
around them, or to the one that their `form` attribute names.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from selectolax.lexbor import LexborHTMLParser, LexborNode

from shoal.model.request import NORMAL, Request
from shoal.spider.html.css import lexbor_selector
from shoal.spider.html.form_body import encode_entries, form_encoding, with_entries_as_query

MAX_LISTED = 20  # names in an error message

_CONTROLS = "input, button, select, textarea"
_BUTTONS = frozenset({"submit", "image"})
_NEVER_SENT = frozenset({"reset", "button"})
_ONE_LINE = frozenset({"text", "search", "tel", "url", "email", "password"})
_TOGGLES = frozenset({"checkbox", "radio"})

Values = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class _Option:
    """One choice of a select, a checkbox or a radio button."""

    value: str
    label: str
    chosen: bool


@dataclass(frozen=True, slots=True)
class _Control:
    kind: str  # type of an input or button; `select`, `textarea`
    name: str
    value: str
    enabled: bool
    options: tuple[_Option, ...] = ()  # of a select, checkbox or radio button
    multiple: bool = False
    node_id: int = 0


@dataclass(frozen=True, slots=True)
class RequestOptions:
    """Fields of the request that a form does not decide."""

    priority: int = NORMAL
    route: str = ""
    data: Mapping[str, Any] | None = None
    pool: str = "http"
    again: bool = False


class Form:
    """A form of a page, as `page.form()` returns it.

    Attributes:
        action: the URL that it is sent to.
        method: `GET` or `POST`.
        values: the values that a browser would send without any change, by name; each a list.

    Example: `yield page.form("#login").fill(user="me", password=password)`
    """

    def __init__(
        self,
        node: LexborNode,
        tree: LexborHTMLParser,
        *,
        url: str,
        encoding: str,
        resolve: Callable[[str], str | None],
        extra: Values,
        options: RequestOptions,
    ) -> None:
        self._attributes = _attributes(node)
        self._url = url
        self._encoding = form_encoding(self._attributes.get("accept-charset", ""), encoding)
        self._resolve = resolve
        self._extra = extra
        self._options = options
        self._buttons: dict[int, dict[str, str]] = {}  # attributes of the submit buttons, by node
        self._ancestors = _Ancestors()
        self._controls = _one_radio_each(
            [self._control(one) for one in _controls_of(node, tree, self._ancestors)]
        )
        self.method = _method(self._attributes.get("method", ""))
        self.action = self._target(self._attributes.get("action", ""))

    @property
    def values(self) -> dict[str, list[str]]:
        """The values that a browser would send without any change, by name; those of buttons excepted."""
        found: dict[str, list[str]] = {}
        for name, value in self._entries({}, None):
            found.setdefault(name, []).append(value)
        return found

    def fill(self, values: Values | None = None, /, *, click: str | bool = True, **fields: Any) -> Request:
        """Return the request that sends the form with these values; all other fields stay as they are.

        Args:
            values: values by name, for names that are not Python names: `{"user[name]": "me"}`.
            click: the submit button to press, by its name, value, id or text. True: the first one, as the
                Enter key does. False: none.
            fields: values by name. A text field takes a text; a checkbox True, False, or the values to check;
                a select a value or label, or a list of them. None: the field is not sent.

        Raises `ValueError` for a name or choice that the form does not have, with those that it has, and for
        file uploads.
        """
        given = {**(values or {}), **fields}
        self._check_names(given)
        button = self._button(click)
        override = self._buttons.get(button.node_id, {}) if button is not None else {}
        method = _method(override["formmethod"]) if "formmethod" in override else self.method
        action = self._target(override["formaction"]) if override.get("formaction") else self.action
        extra = [(name, text) for name, value in self._extra.items() for text in _texts(value)]
        entries = [*self._entries(given, button), *extra]
        options = self._options
        shared: dict[str, Any] = {
            "priority": options.priority,
            "route": options.route,
            "data": dict(options.data or {}),
            "pool": options.pool,
            "again": options.again,
        }
        if method == "GET":
            return Request(with_entries_as_query(action, entries, self._encoding), **shared)
        enctype = override.get("formenctype", self._attributes.get("enctype", ""))
        files = [one.name for one in self._controls if one.kind == "file" and one.enabled and one.name]
        kind, body = encode_entries(entries, enctype, self._encoding, empty_files=files)
        return Request(action, method="POST", body=body, headers={"Content-Type": kind}, **shared)

    # --- what is sent --------------------------------------------------------------------------------

    def _entries(self, given: Values, button: _Control | None) -> Iterator[tuple[str, str]]:
        left = {name: _texts(value) for name, value in given.items()}
        for one in self._controls:
            if one is button:
                yield from _button_entries(one)
            elif not one.name or one.kind in _BUTTONS or one.kind in _NEVER_SENT:
                continue
            elif one.name in given:
                yield from ((one.name, value) for value in _filled(one, given[one.name], left[one.name]))
            elif one.enabled and one.options:
                yield from ((one.name, option.value) for option in one.options if option.chosen)
            elif one.enabled and one.kind == "hidden" and one.name.lower() == "_charset_":
                yield one.name, self._encoding.upper() if self._encoding == "utf-8" else self._encoding
            elif one.enabled and one.kind not in _TOGGLES and one.kind != "select":
                yield one.name, one.value

    def _check_names(self, given: Values) -> None:
        sent = (one for one in self._controls if one.name and one.kind not in _BUTTONS | _NEVER_SENT)
        fillable = list(dict.fromkeys(one.name for one in sent))
        for name, value in given.items():
            if name not in fillable:
                if name in {one.name for one in self._controls if one.kind in _BUTTONS}:
                    raise ValueError(f"{name!r} is a button of the form: press it with click={name!r}")
                raise ValueError(
                    f"the form has no field {name!r}; it has {_listed(fillable)};"
                    " page.form(..., extra={...}) adds fields"
                )
            if value is not None and any(one.name == name and one.kind == "file" for one in self._controls):
                raise ValueError(f"field {name!r} is a file upload, which is not supported")
        for name in given:
            self._check_choice(name, given[name])

    def _check_choice(self, name: str, value: Any) -> None:
        """Raise `ValueError` for a value that no option of the field has."""
        controls = [one for one in self._controls if one.name == name]
        options = [option for one in controls for option in one.options]
        if not options or value is None or isinstance(value, bool) or len(options) < len(controls):
            return
        known = {text for option in options for text in (option.value, option.label)}
        for text in _texts(value):
            if text not in known:
                choices = _listed([option.value for option in options])
                raise ValueError(f"field {name!r} has no choice {text!r}; it has {choices}")

    def _button(self, click: str | bool) -> _Control | None:
        buttons = [one for one in self._controls if one.kind in _BUTTONS and one.enabled]
        if isinstance(click, bool):
            return buttons[0] if click and buttons else None
        for one in buttons:
            attributes = self._buttons[one.node_id]
            if click in (one.name, one.value, attributes.get("id"), attributes.get("text")):
                return one
        known = [one.name or one.value or self._buttons[one.node_id].get("text", "") for one in buttons]
        raise ValueError(f"the form has no submit button {click!r}; it has {_listed(known)}")

    def _target(self, action: str) -> str:
        # An empty action is the page itself, even if the page has a <base>.
        target = self._resolve(action.strip()) if action.strip() else self._url
        if target is None or not target.startswith(("http://", "https://")):
            raise ValueError(f"the form cannot be sent to {action[:200]!r}")
        return target

    # --- what is in the page -------------------------------------------------------------------------

    def _control(self, node: LexborNode) -> _Control:
        attributes = _attributes(node)
        name, value = attributes.get("name", ""), attributes.get("value", "")
        enabled = "disabled" not in attributes and self._ancestors.allow(node)
        match node.tag:
            case "select":
                multiple = "multiple" in attributes
                options = _select_options(node, multiple=multiple, size=attributes.get("size", ""))
                return _Control("select", name, "", enabled, options, multiple, node.mem_id)
            case "textarea":
                return _Control("textarea", name, node.text(), enabled)
            case "button":
                kind = attributes.get("type", "").lower()
                kind = kind if kind in _NEVER_SENT else "submit"
                text = " ".join(node.text().split())
            case _:
                kind = attributes.get("type", "").lower() or "text"
                text = value
        if kind in _BUTTONS:
            self._buttons[node.mem_id] = {**attributes, "text": text}
        if kind in _TOGGLES:
            option = _Option(attributes.get("value", "on"), "", "checked" in attributes)
            return _Control(kind, name, option.value, enabled, (option,), kind == "checkbox", node.mem_id)
        if kind in _ONE_LINE:
            value = value.replace("\r", "").replace("\n", "")
        return _Control(kind, name, _default_value(kind, value, attributes), enabled, node_id=node.mem_id)


def find_form(tree: LexborHTMLParser, selected: Sequence[LexborNode] | None, selector: str) -> LexborNode:
    """Return the form that a selector chose: the element itself, the form around it, or the first inside it.

    Without a selector (`selected` is None), the only form of the page. Raises `ValueError` otherwise.
    """
    if selected is None:
        forms = tree.tags("form")
        if len(forms) == 1:
            return forms[0]
        if not forms:
            raise ValueError("the page has no form")
        names = _listed([_selector_of(one, number) for number, one in enumerate(forms, 1)])
        raise ValueError(f"the page has {len(forms)} forms: choose one with a CSS selector, such as {names}")
    for node in selected:
        form = _form_around(node)
        if form is not None:
            return form
        inside = lexbor_selector.find("form", node)
        if inside:
            return inside[0]
    raise ValueError(f"no form matches {selector!r}")


def _selector_of(form: LexborNode, number: int) -> str:
    attributes = _attributes(form)
    if attributes.get("id"):
        return f"#{attributes['id']}"
    for name in ("name", "action"):
        if attributes.get(name):
            return f'form[{name}="{attributes[name][:80]}"]'
    return f"form:nth-of-type({number})"


def _controls_of(form: LexborNode, tree: LexborHTMLParser, ancestors: "_Ancestors") -> Iterator[LexborNode]:
    """Yield the controls that belong to a form, in document order."""
    own_id = _attributes(form).get("id", "")
    for node in tree.css(_CONTROLS):
        named = _attributes(node).get("form")
        if named is not None:
            if own_id and named == own_id:
                yield node
        elif ancestors.form(node) == form.mem_id:
            yield node


def _form_around(node: LexborNode) -> LexborNode | None:
    above: LexborNode | None = node
    while above is not None and above.tag != "form":
        above = above.parent
    return above


class _Ancestors:
    """What the elements around a control say about it, found once for each element: controls may be nested
    thousands of levels deep."""

    def __init__(self) -> None:
        self._forms: dict[int, int] = {}  # by element: the form around it; 0: none
        self._allowed: dict[int, bool] = {}
        self._legends: dict[int, int] = {}  # by fieldset: its first legend; 0: none

    def form(self, node: LexborNode) -> int:
        """Return the id of the form around an element; 0: it is in no form."""
        path, above, found = [], node, 0
        while True:
            if (known := self._forms.get(above.mem_id)) is not None:
                found = known
                break
            path.append(above.mem_id)
            if above.tag == "form":
                found = above.mem_id
                break
            if above.parent is None:
                break
            above = above.parent
        self._forms.update(dict.fromkeys(path, found))
        return found

    def allow(self, node: LexborNode) -> bool:
        """Return whether a control takes part: not in a disabled fieldset, not in a datalist."""
        path, below, above = [], node, node.parent
        allowed = True
        while above is not None:
            if (known := self._allowed.get(below.mem_id)) is not None:
                allowed = known
                break
            path.append((below, above))
            below, above = above, above.parent
        for inner, outer in reversed(path):
            allowed = allowed and not self._disables(outer, inner)
            self._allowed[inner.mem_id] = allowed
        return allowed

    def _disables(self, node: LexborNode, child: LexborNode) -> bool:
        """Return whether an element disables the controls in one of its children."""
        if node.tag == "datalist":
            return True
        if node.tag != "fieldset" or "disabled" not in _attributes(node):
            return False
        if node.mem_id not in self._legends:
            legend = next((one for one in node.iter() if one.tag == "legend"), None)
            self._legends[node.mem_id] = 0 if legend is None else legend.mem_id
        return self._legends[node.mem_id] != child.mem_id


def _select_options(node: LexborNode, *, multiple: bool, size: str) -> tuple[_Option, ...]:
    found: list[_Option] = []
    for one in lexbor_selector.find("option", node):
        attributes = _attributes(one)
        group = one.parent
        disabled = "disabled" in attributes or (
            group is not None and group.tag == "optgroup" and "disabled" in _attributes(group)
        )
        if not disabled:
            label = " ".join(one.text().split())
            found.append(_Option(attributes.get("value", label), label, "selected" in attributes))
    if multiple or not found:
        return tuple(found)
    chosen = [number for number, option in enumerate(found) if option.chosen]
    # A drop-down list shows its first option if none is selected, and the last of several that are.
    first = 0 if size in ("", "0", "1") else None
    last = chosen[-1] if chosen else first
    return tuple(_Option(one.value, one.label, number == last) for number, one in enumerate(found))


def _default_value(kind: str, value: str, attributes: Mapping[str, str]) -> str:
    match kind:
        case "color" if not value:
            return "#000000"
        case "range" if not value:
            try:
                low, high = float(attributes.get("min", 0)), float(attributes.get("max", 100))
            except ValueError:
                low, high = 0.0, 100.0
            return f"{low + (high - low) / 2 if high >= low else low:g}"
        case "file":
            return ""
    return value


def _one_radio_each(controls: list[_Control]) -> list[_Control]:
    """Return the controls with one checked radio button for each name: the last one, as in a browser."""
    last = {one.name: one.node_id for one in controls if one.kind == "radio" and one.options[0].chosen}
    return [
        replace(one, options=(_Option(one.value, "", False),))
        if one.kind == "radio" and one.options[0].chosen and last[one.name] != one.node_id
        else one
        for one in controls
    ]


def _button_entries(button: _Control) -> Iterator[tuple[str, str]]:
    if button.kind == "image":
        prefix = f"{button.name}." if button.name else ""
        yield f"{prefix}x", "0"
        yield f"{prefix}y", "0"
    elif button.name:
        yield button.name, button.value


def _filled(control: _Control, value: Any, left: list[str]) -> Iterable[str]:
    """Return what a control sends for the value of its name; `left` are the texts not used by others yet."""
    if value is None:
        return []
    if control.kind == "select":
        chosen = [one for one in control.options if {one.value, one.label}.intersection(left)]
        return [one.value for one in (chosen if control.multiple else chosen[:1])]
    if control.kind in _TOGGLES:
        option = control.options[0]
        if isinstance(value, bool):
            return [option.value] if value else []
        return [option.value] if option.value in left else []
    return [left.pop(0)] if left else ([control.value] if control.enabled else [])


def _texts(value: Any) -> list[str]:
    values = value if isinstance(value, list | tuple | set | frozenset) else [value]
    return [("true" if one else "false") if isinstance(one, bool) else str(one) for one in values]


def _method(text: str) -> str:
    match text.lower():
        case "post":
            return "POST"
        case "dialog":
            raise ValueError("the form closes a dialog and sends nothing (method=dialog)")
    return "GET"


def _attributes(node: LexborNode) -> dict[str, str]:
    return {name: value or "" for name, value in node.attributes.items()}


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(map(repr, names[:MAX_LISTED])) or "none"
    return f"{shown} and {len(names) - MAX_LISTED} more" if len(names) > MAX_LISTED else shown
