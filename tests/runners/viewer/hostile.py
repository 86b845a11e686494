"""Texts that would be more than text if anything let them: at least a hundred, written for this page."""

# ruff: noqa: E501

from __future__ import annotations

from memory.records import Observation, Source, Step, ToolCall

_ACT = "window.hacked=1"
_TAGS = (
    "script", "img src=x onerror", "svg onload", "body onload", "iframe srcdoc", "video src=x onerror", "audio src=x onerror",
    "details open ontoggle", "input autofocus onfocus", "select autofocus onfocus", "textarea autofocus onfocus",
    "marquee onstart", "object data=x onerror", "embed src=x onerror", "style onload", "link rel=stylesheet href=x onerror",
    "math onmouseover", "form onsubmit", "button onclick", "a href=javascript:1 onclick", "base href=//evil.test/ x", "meta http-equiv=refresh content",
    "table background", "template x", "noscript x", "xmp x", "plaintext x", "frameset onload", "dialog open oncancel", "portal src",
)  # fmt: skip
_ENDS = (
    "</script><script>{a}</script>", "</SCRIPT ><img src=x onerror={a}>", "</style><script>{a}</script>", "</title><script>{a}</script>",
    "</textarea><script>{a}</script>", "--></script><script>{a}</script>", "<!--<script>", "<!--</script><script>{a}//-->", "]]><script>{a}</script>",
    "</noscript><img src=x onerror={a}>", "</template><script>{a}</script>", "</pre></div><img src=x onerror={a}>", "</option></select><img src=x onerror={a}>",
    "<![CDATA[<script>{a}</script>]]>", "<?xml version='1.0'?><script>{a}</script>", "<!DOCTYPE html><script>{a}</script>",
)  # fmt: skip
_BROKEN_OUT = (
    '" onmouseover="{a}" x="', "' onfocus='{a}' autofocus='", "`onload={a}`", '"><script>{a}</script>', "'><script>{a}</script>", "\\\"-{a}-\\\"", "\\';{a};//",
    "${{{a}}}", "{{{{constructor.constructor('{a}')()}}}}", "{{%{a}%}}", "<%= {a} %>", "#{{{a}}}", "</td></tr></table><img src=x onerror={a}>",
)  # fmt: skip
_ADDRESSES = (
    "javascript:{a}", "JaVaScRiPt:{a}", "java\tscript:{a}", "\x01javascript:{a}", "data:text/html,<script>{a}</script>", "data:text/html;base64,PHNjcmlwdD4=",
    "vbscript:{a}", "blob:{a}", "//evil.test/x.js", "http://evil.test/<script>{a}</script>", "javascript://%0a{a}", "view-source:javascript:{a}",
)  # fmt: skip
_ODD = (
    "<scr\x00ipt>{a}</scr\x00ipt>", "\u202e<script>{a}</script>", "\ufeff<script>{a}</script>", "＜script＞{a}＜/script＞", "&lt;script&gt;{a}&lt;/script&gt;",
    "&#60;script&#62;{a}", "%3Cscript%3E{a}", "\\u003cscript\\u003e{a}", "\\x3cscript\\x3e{a}", "<\u2028script>{a}</script>", "\u2029</script><script>{a}</script>",
    "<ScRiPt/x>{a}</ScRiPt>", "<script\n>{a}</script>", "<<script>{a}//<</script>", "<img/src=x/onerror={a}>", "<img\x0csrc=x\x0conerror={a}>", "<svg><script>{a}</script></svg>",
    "<svg><style><img src=x onerror={a}></style></svg>", "<math><mtext><table><mglyph><style><img src=x onerror={a}>", "<a href=javas&#99;ript:{a}>x</a>",
    "<img src=`x` onerror={a}>", "<img src=x onerror\n=\n{a}>", "+ADw-script+AD4-{a}", "[x](javascript:{a})", "![x](x){a}", "<b>bold</b>", "<h1>{a}", "__proto__",
    "constructor", "{{data}}", "{{script}}", "toString", '{{"__proto__": {{"hacked": 1}}}}', "@import url(//evil.test/x.css);", "expression({a})",
)  # fmt: skip


def corpus() -> list[str]:
    """Every text once."""
    made = [f"<{tag}={_ACT}>{_ACT}</{tag.split()[0]}>" for tag in _TAGS]
    made[0] = f"<script>{_ACT}</script>"
    for texts in (_ENDS, _BROKEN_OUT, _ADDRESSES, _ODD):
        made += [text.format(a=_ACT, data="{{data}}", script="{{script}}") if "{a}" in text else text for text in texts]
    return list(dict.fromkeys(made))


def hostile_step(texts: list[str], number: int) -> Step:
    """A step with a hostile text in every place that has one."""
    text = texts[(number - 1) % len(texts)]
    call = ToolCall(f"s{number}.0", "visit", {"urls": [text], text[:40]: text})
    body = f"{text}\n{' '.join(texts[number % len(texts) :][:12])}\nThe harbour was rebuilt in {1700 + number}. {text}"
    return Step(
        number,
        thought=text,
        calls=(call,),
        observations=(Observation(call.id, "visit", body, sources=(Source(text, text),)),),
        created=1_000_000.0 + number,
    )
