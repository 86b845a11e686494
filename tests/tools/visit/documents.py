"""Documents of our own for extraction: an article, a box page, and PDFs written by hand."""

from __future__ import annotations

SENTENCES = [
    f"Sentence number {n} tells of the river, its {n} bridges and the people who cross them on market days."
    for n in range(60)
]
ARTICLE = (
    "<html><head><title>The river town</title><style>p{color:red}</style></head><body>"
    "<nav><a href='/home'>Home</a> <a href='/about'>About us</a></nav><article><h1>The river town</h1>"
    + "".join(f"<p>{sentence}</p>" for sentence in SENTENCES)
    + "<p>The old <a href='bridge.html'>stone bridge</a> was finished in 1431.</p>"
    "<table><tr><th>Year</th><th>People</th></tr><tr><td>1900</td><td>4,211</td></tr></table>"
    "<script>var secret = 'do not show';</script></article><footer>Copyright and cookies</footer></body></html>"
)
BOX = (
    "<html><head><title>Element 26</title></head><body><div><table class='infobox'><caption>Iron</caption>"
    "<tr><th>Symbol</th><td>Fe</td></tr><tr><th>Melting point</th><td>1538 &deg;C</td></tr></table></div></body></html>"
)


def pdf(*pages: str, title: str = "") -> bytes:
    """A minimal PDF with one line of Latin text a page."""
    objects = ["<< /Type /Catalog /Pages 2 0 R >>", ""]
    kids: list[str] = []
    for text in pages:
        stream = f"BT /F1 12 Tf 72 720 Td ({text}) Tj ET"
        objects.append(f"<< /Length {len(stream)} >>\nstream\n{stream}\nendstream")
        font = "<< /Font << /F1 << /Type /Font /Subtype /Type1 /BaseFont /Helvetica >> >> >>"
        content = len(objects)
        objects.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Resources {font} /Contents {content} 0 R >>"
        )
        kids.append(f"{len(objects)} 0 R")
    objects[1] = f"<< /Type /Pages /Kids [{' '.join(kids)}] /Count {len(kids)} >>"
    objects.append(f"<< /Title ({title}) >>")
    out = b"%PDF-1.4\n"
    offsets: list[int] = []
    for number, body in enumerate(objects, 1):
        offsets.append(len(out))
        out += f"{number} 0 obj\n{body}\nendobj\n".encode("latin-1")
    table = "".join(f"{offset:010d} 00000 n \n" for offset in offsets)
    size = len(objects) + 1
    trailer = f"trailer\n<< /Size {size} /Root 1 0 R /Info {len(objects)} 0 R >>\nstartxref\n{len(out)}\n%%EOF"
    return out + f"xref\n0 {size}\n0000000000 65535 f \n{table}{trailer}".encode("latin-1")
