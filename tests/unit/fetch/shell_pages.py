"""Empty shells as the frameworks' build tools produce them from a new project, and short pages with content.

Written after the stock templates, with our own names.
"""

_HEAD = (
    '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8" />\n'
    '<meta name="viewport" content="width=device-width, initial-scale=1" />\n<title>Fish shop</title>\n'
)

SHELLS: dict[str, str] = {
    "React, Vite": _HEAD + '<script type="module" crossorigin src="/assets/index-D2xk.js"></script>\n'
    '<link rel="stylesheet" href="/assets/index-aB1.css">\n</head>\n<body>\n<div id="root"></div>\n</body>\n</html>',
    "React, Create React App": _HEAD + '<link rel="manifest" href="/manifest.json"/>'
    '<script defer="defer" src="/static/js/main.8f3a.js"></script></head><body><noscript>You need to enable'
    ' JavaScript to run this app.</noscript><div id="root"></div></body></html>',
    "React, tag manager in noscript": _HEAD
    + '</head><body><noscript><iframe src="https://tags.example/ns.html"'
    ' height="0" width="0"></iframe></noscript><div id="root"></div><script src="/main.js"></script></body></html>',
    "Preact": _HEAD
    + '<script type="module" src="/assets/index.js"></script></head><body><div id="app"></div>'
    "</body></html>",
    "Next, pages without data on the server": _HEAD + '<meta name="next-head-count" content="3"/>'
    '<script src="/_next/static/chunks/main-1c.js" defer=""></script></head><body><div id="__next"></div>'
    '<script id="__NEXT_DATA__" type="application/json">{"props":{"pageProps":{}},"page":"/"}</script></body></html>',
    "Next, app router, client only": _HEAD
    + '<script src="/_next/static/chunks/webpack-3.js" async=""></script>'
    '</head><body class="inter"><!--$!--><template data-dgst="BAILOUT_TO_CLIENT_SIDE_RENDERING"></template><!--/$-->'
    '<script>(self.__next_f=self.__next_f||[]).push([0])</script><script>self.__next_f.push([1,"0:[\\"$\\",'
    '\\"p\\",null,{\\"children\\":\\"Fish and more fish of all kinds, fresh every day from the sea\\"}]"])</script>'
    "</body></html>",
    "Nuxt, ssr: false": _HEAD
    + '<link rel="modulepreload" as="script" crossorigin href="/_nuxt/entry.js"></head>'
    '<body><div id="__nuxt"></div><div id="teleports"></div><script type="module" src="/_nuxt/entry.js" crossorigin>'
    '</script><script>window.__NUXT__={};window.__NUXT__.config={app:{baseURL:"/"}}</script></body></html>',
    "Nuxt 2": _HEAD + '</head><body><div id="__nuxt"><style>#nuxt-loading{color:#000}</style><script>'
    'window.addEventListener("error",function(){})</script><div id="nuxt-loading" aria-live="polite"><div>Loading...'
    '</div></div></div><script src="/_nuxt/app.js"></script></body></html>',
    "Vue, Vite": _HEAD + '<script type="module" crossorigin src="/assets/index.js"></script></head><body>\n'
    '<div id="app"></div>\n</body></html>',
    "Vue CLI": _HEAD
    + '<script defer="defer" src="/js/app.js"></script></head><body><noscript><strong>We\'re sorry but'
    " fish-shop doesn't work properly without JavaScript enabled. Please enable it to continue.</strong></noscript>"
    '<div id="app"></div></body></html>',
    "Quasar": _HEAD
    + "</head><body><div id=q-app></div><script type=module src=/assets/index.js></script></body></html>",
    "Angular": _HEAD
    + '<base href="/"><link rel="stylesheet" href="styles.css"></head><body>\n<app-root></app-root>\n'
    '<link rel="modulepreload" href="chunk-A.js"><script src="main.js" type="module"></script></body></html>',
    "Angular, with a spinner": _HEAD
    + '<base href="/"></head><body><app-root><div class="spinner">Loading&hellip;</div>'
    '</app-root><script src="runtime.js" defer></script><script src="main.js" defer></script></body></html>',
    "AngularJS": _HEAD
    + '</head><body ng-app="shop"><div ng-view></div><script src="/angular.min.js"></script>'
    '<script type="text/ng-template" id="row.html"><a ng-href="{{u}}">{{t}}</a><a>1</a><a>2</a><a>3</a><a>4</a>'
    "<a>5</a></script></body></html>",
    "Ionic": _HEAD
    + '</head><body><ion-app></ion-app><script src="main.js" type="module"></script></body></html>',
    "Svelte, Vite": _HEAD
    + '<script type="module" src="/assets/index.js"></script></head><body><div id="app"></div>'
    "</body></html>",
    "SvelteKit, fallback of the static adapter": _HEAD
    + '<link href="/_app/immutable/entry/start.js" rel="modulepreload">'
    '</head><body data-sveltekit-preload-data="hover"><div style="display: contents"><script>{__sveltekit_1={base:""};'
    'const element=document.currentScript.parentElement;Promise.all([import("/_app/immutable/entry/start.js")])}</script>'
    "</div></body></html>",
    "Gatsby": _HEAD
    + '</head><body><div id="___gatsby"><div style="outline:none" tabindex="-1" id="gatsby-focus-wrapper">'
    '</div></div><script src="/app-3d.js" async=""></script></body></html>',
    "Ember": _HEAD + '<meta name="shop/config/environment" content="%7B%22modulePrefix%22%3A%22shop%22%7D" />'
    '<link integrity="" rel="stylesheet" href="/assets/vendor.css"></head><body><script src="/assets/vendor.js"></script>'
    '<script src="/assets/shop.js"></script><div id="ember-basic-dropdown-wormhole"></div></body></html>',
    "Solid": _HEAD
    + '</head><body><noscript>You need to enable JavaScript to run this app.</noscript><div id="root"></div>'
    '<script src="/src/index.tsx" type="module"></script></body></html>',
    "Astro, client:only": _HEAD
    + '</head><body><script>(()=>{var e=async t=>{}})()</script><astro-island uid="Z1" '
    'component-url="/_astro/Shop.js" renderer-url="/_astro/client.js" client="only" props="{}" ssr></astro-island>'
    "</body></html>",
    "Flutter": _HEAD + '<base href="/"><meta name="apple-mobile-web-app-title" content="shop"></head><body>\n'
    '  <script src="flutter_bootstrap.js" async></script>\n</body></html>',
    "Flutter, before 3.22": _HEAD
    + '<script src="flutter.js" defer></script></head><body><script>window.addEventListener('
    '"load",function(ev){_flutter.loader.loadEntrypoint({})});</script></body></html>',
    "Blazor WebAssembly": _HEAD
    + '<base href="/" /></head><body><div id="app"><svg class="loading-progress"><circle r="40%"'
    ' cx="50%" cy="50%" /></svg><div class="loading-progress-text"></div></div><div id="blazor-error-ui">An unhandled '
    'error has occurred.<a href="" class="reload">Reload</a><a class="dismiss">x</a></div>'
    '<script src="_framework/blazor.webassembly.js"></script></body></html>',
    "Elm": _HEAD
    + '</head><body><div id="myapp"></div><script src="elm.js"></script><script>Elm.Main.init({node:'
    'document.getElementById("myapp")})</script></body></html>',
    "Lit": _HEAD
    + '<script type="module" src="/src/shop-app.js"></script></head><body><shop-app></shop-app></body></html>',
    "Aurelia": _HEAD
    + '</head><body aurelia-app="main"><script src="scripts/vendor-bundle.js" data-main="aurelia">'
    "</script></body></html>",
    "Meteor": _HEAD
    + '</head><body><div id="react-target"></div><script type="text/javascript">__meteor_runtime_config__={}'
    '</script><script src="/app.js"></script></body></html>',
    "Backbone, RequireJS": _HEAD
    + '<script data-main="js/main" src="js/require.js"></script></head><body></body></html>',
    "Ext JS": _HEAD + '<script id="microloader" src="bootstrap.js"></script></head><body></body></html>',
    "Qt WebAssembly, Emscripten loader": _HEAD
    + '</head><body onload="init()"><div id=qtspinner><strong>Shop</strong>'
    '<div id="qtstatus"></div><noscript>JavaScript is disabled. Please enable JavaScript to use this application.</noscript>'
    '</div><div id="screen"></div><script src="qtloader.js"></script></body></html>',
    "React, with a cookie notice in the shell": _HEAD
    + '</head><body><header>Fish shop</header><div id="root"><p>Loading the '
    'shop…</p></div><footer>© Fish shop <a href="/imprint">Imprint</a> <a href="/privacy">Privacy</a></footer>'
    '<script src="/main.js"></script></body></html>',
}

_TEXT = (
    "Cod, haddock and plaice are landed every morning and sold at the quay until noon, while stocks last. "
)

PAGES: dict[str, str] = {
    "rendered by the server, then hydrated": _HEAD
    + f'</head><body><div id="root"><h1>Fish</h1><p>{_TEXT * 3}</p></div>'
    '<script src="/main.js"></script></body></html>',
    "a short list of links": _HEAD
    + '</head><body><div id="app">'
    + "".join(f'<a href="/{n}">Fish {n}</a>' for n in range(6))
    + '</div><script src="/count.js"></script></body></html>',
    "frames": _HEAD + '<script src="/nav.js"></script></head><frameset cols="20%,80%"><frame src="toc.html">'
    '<frame src="main.html"></frameset></html>',
    "an embedded page": _HEAD
    + '<script src="/a.js"></script></head><body><iframe src="/player"></iframe></body></html>',
    "a redirect by refresh": _HEAD
    + '<meta http-equiv="refresh" content="0; url=/new/"><script>location="/new/"</script>'
    "</head><body></body></html>",
    "without scripts": _HEAD + '</head><body><div id="root"></div></body></html>',
    "an image and a script that counts": _HEAD
    + '</head><body><img src="/map.png" alt=""><script src="/count.js"></script>'
    "</body></html>",
    "a log-in form": _HEAD
    + '</head><body><form><input name="user"><input type="password" name="p"><button>Log in</button>'
    '</form><script src="/focus.js"></script></body></html>',
    "a short notice": _HEAD + "</head><body><p>The shop is closed today. We open again tomorrow at nine.</p>"
    '<script src="/count.js"></script></body></html>',
    "one link back": _HEAD
    + '</head><body><a href="/">Back</a><script src="/count.js"></script></body></html>',
    "text in another alphabet": _HEAD
    + f'</head><body><div id="app"><p>{"Свежая рыба каждый день. " * 9}</p></div>'
    '<script src="/main.js"></script></body></html>',
}
