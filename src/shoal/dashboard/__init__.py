"""The dashboard of `shoal serve`: pages without a build step, in `static`.

HTML, one style sheet and ES modules, served as they are. They hold no data and ask the API for it. No markup
is ever made from text: `dom.js` builds elements, and what comes from outside becomes text nodes.
"""
