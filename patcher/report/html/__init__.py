"""One self-contained HTML file: a scan, a change, a proof, or several of them together.

``page`` puts the parts (plain values) into the template beside it; what is shown and how is
the script's business. Whatever comes from a scanned package travels as JSON data, is put
into the page as text nodes only, and a content security policy forbids all other script.
"""
