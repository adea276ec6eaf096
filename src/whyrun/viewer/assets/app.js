(()=>{var Ts=globalThis,js=Ts.ShadowRoot&&(Ts.ShadyCSS===void 0||Ts.ShadyCSS.nativeShadow)&&"adoptedStyleSheets"in Document.prototype&&"replace"in CSSStyleSheet.prototype,Ga=Symbol(),Ya=new WeakMap,Cs=class{constructor(e,n,r){if(this._$cssResult$=!0,r!==Ga)throw Error("CSSResult is not constructable. Use `unsafeCSS` or `css` instead.");this.cssText=e,this.t=n}get styleSheet(){let e=this.o,n=this.t;if(js&&e===void 0){let r=n!==void 0&&n.length===1;r&&(e=Ya.get(n)),e===void 0&&((this.o=e=new CSSStyleSheet).replaceSync(this.cssText),r&&Ya.set(n,e))}return e}toString(){return this.cssText}},Ja=t=>new Cs(typeof t=="string"?t:t+"",void 0,Ga);var Ka=(t,e)=>{if(js)t.adoptedStyleSheets=e.map(n=>n instanceof CSSStyleSheet?n:n.styleSheet);else for(let n of e){let r=document.createElement("style"),s=Ts.litNonce;s!==void 0&&r.setAttribute("nonce",s),r.textContent=n.cssText,t.appendChild(r)}},Ji=js?t=>t:t=>t instanceof CSSStyleSheet?(e=>{let n="";for(let r of e.cssRules)n+=r.cssText;return Ja(n)})(t):t;var{is:zh,defineProperty:Hh,getOwnPropertyDescriptor:Uh,getOwnPropertyNames:Vh,getOwnPropertySymbols:Fh,getPrototypeOf:Wh}=Object,Ns=globalThis,Za=Ns.trustedTypes,Bh=Za?Za.emptyScript:"",qh=Ns.reactiveElementPolyfillSupport,Zr=(t,e)=>t,Ki={toAttribute(t,e){switch(e){case Boolean:t=t?Bh:null;break;case Object:case Array:t=t==null?t:JSON.stringify(t)}return t},fromAttribute(t,e){let n=t;switch(e){case Boolean:n=t!==null;break;case Number:n=t===null?null:Number(t);break;case Object:case Array:try{n=JSON.parse(t)}catch{n=null}}return n}},Xa=(t,e)=>!zh(t,e),Qa={attribute:!0,type:String,converter:Ki,reflect:!1,useDefault:!1,hasChanged:Xa};Symbol.metadata??=Symbol("metadata"),Ns.litPropertyMetadata??=new WeakMap;var an=class extends HTMLElement{static addInitializer(e){this._$Ei(),(this.l??=[]).push(e)}static get observedAttributes(){return this.finalize(),this._$Eh&&[...this._$Eh.keys()]}static createProperty(e,n=Qa){if(n.state&&(n.attribute=!1),this._$Ei(),this.prototype.hasOwnProperty(e)&&((n=Object.create(n)).wrapped=!0),this.elementProperties.set(e,n),!n.noAccessor){let r=Symbol(),s=this.getPropertyDescriptor(e,r,n);s!==void 0&&Hh(this.prototype,e,s)}}static getPropertyDescriptor(e,n,r){let{get:s,set:i}=Uh(this.prototype,e)??{get(){return this[n]},set(o){this[n]=o}};return{get:s,set(o){let l=s?.call(this);i?.call(this,o),this.requestUpdate(e,l,r)},configurable:!0,enumerable:!0}}static getPropertyOptions(e){return this.elementProperties.get(e)??Qa}static _$Ei(){if(this.hasOwnProperty(Zr("elementProperties")))return;let e=Wh(this);e.finalize(),e.l!==void 0&&(this.l=[...e.l]),this.elementProperties=new Map(e.elementProperties)}static finalize(){if(this.hasOwnProperty(Zr("finalized")))return;if(this.finalized=!0,this._$Ei(),this.hasOwnProperty(Zr("properties"))){let n=this.properties,r=[...Vh(n),...Fh(n)];for(let s of r)this.createProperty(s,n[s])}let e=this[Symbol.metadata];if(e!==null){let n=litPropertyMetadata.get(e);if(n!==void 0)for(let[r,s]of n)this.elementProperties.set(r,s)}this._$Eh=new Map;for(let[n,r]of this.elementProperties){let s=this._$Eu(n,r);s!==void 0&&this._$Eh.set(s,n)}this.elementStyles=this.finalizeStyles(this.styles)}static finalizeStyles(e){let n=[];if(Array.isArray(e)){let r=new Set(e.flat(1/0).reverse());for(let s of r)n.unshift(Ji(s))}else e!==void 0&&n.push(Ji(e));return n}static _$Eu(e,n){let r=n.attribute;return r===!1?void 0:typeof r=="string"?r:typeof e=="string"?e.toLowerCase():void 0}constructor(){super(),this._$Ep=void 0,this.isUpdatePending=!1,this.hasUpdated=!1,this._$Em=null,this._$Ev()}_$Ev(){this._$ES=new Promise(e=>this.enableUpdating=e),this._$AL=new Map,this._$E_(),this.requestUpdate(),this.constructor.l?.forEach(e=>e(this))}addController(e){(this._$EO??=new Set).add(e),this.renderRoot!==void 0&&this.isConnected&&e.hostConnected?.()}removeController(e){this._$EO?.delete(e)}_$E_(){let e=new Map,n=this.constructor.elementProperties;for(let r of n.keys())this.hasOwnProperty(r)&&(e.set(r,this[r]),delete this[r]);e.size>0&&(this._$Ep=e)}createRenderRoot(){let e=this.shadowRoot??this.attachShadow(this.constructor.shadowRootOptions);return Ka(e,this.constructor.elementStyles),e}connectedCallback(){this.renderRoot??=this.createRenderRoot(),this.enableUpdating(!0),this._$EO?.forEach(e=>e.hostConnected?.())}enableUpdating(e){}disconnectedCallback(){this._$EO?.forEach(e=>e.hostDisconnected?.())}attributeChangedCallback(e,n,r){this._$AK(e,r)}_$ET(e,n){let r=this.constructor.elementProperties.get(e),s=this.constructor._$Eu(e,r);if(s!==void 0&&r.reflect===!0){let i=(r.converter?.toAttribute!==void 0?r.converter:Ki).toAttribute(n,r.type);this._$Em=e,i==null?this.removeAttribute(s):this.setAttribute(s,i),this._$Em=null}}_$AK(e,n){let r=this.constructor,s=r._$Eh.get(e);if(s!==void 0&&this._$Em!==s){let i=r.getPropertyOptions(s),o=typeof i.converter=="function"?{fromAttribute:i.converter}:i.converter?.fromAttribute!==void 0?i.converter:Ki;this._$Em=s;let l=o.fromAttribute(n,i.type);this[s]=l??this._$Ej?.get(s)??l,this._$Em=null}}requestUpdate(e,n,r,s=!1,i){if(e!==void 0){let o=this.constructor;if(s===!1&&(i=this[e]),r??=o.getPropertyOptions(e),!((r.hasChanged??Xa)(i,n)||r.useDefault&&r.reflect&&i===this._$Ej?.get(e)&&!this.hasAttribute(o._$Eu(e,r))))return;this.C(e,n,r)}this.isUpdatePending===!1&&(this._$ES=this._$EP())}C(e,n,{useDefault:r,reflect:s,wrapped:i},o){r&&!(this._$Ej??=new Map).has(e)&&(this._$Ej.set(e,o??n??this[e]),i!==!0||o!==void 0)||(this._$AL.has(e)||(this.hasUpdated||r||(n=void 0),this._$AL.set(e,n)),s===!0&&this._$Em!==e&&(this._$Eq??=new Set).add(e))}async _$EP(){this.isUpdatePending=!0;try{await this._$ES}catch(n){Promise.reject(n)}let e=this.scheduleUpdate();return e!=null&&await e,!this.isUpdatePending}scheduleUpdate(){return this.performUpdate()}performUpdate(){if(!this.isUpdatePending)return;if(!this.hasUpdated){if(this.renderRoot??=this.createRenderRoot(),this._$Ep){for(let[s,i]of this._$Ep)this[s]=i;this._$Ep=void 0}let r=this.constructor.elementProperties;if(r.size>0)for(let[s,i]of r){let{wrapped:o}=i,l=this[s];o!==!0||this._$AL.has(s)||l===void 0||this.C(s,void 0,i,l)}}let e=!1,n=this._$AL;try{e=this.shouldUpdate(n),e?(this.willUpdate(n),this._$EO?.forEach(r=>r.hostUpdate?.()),this.update(n)):this._$EM()}catch(r){throw e=!1,this._$EM(),r}e&&this._$AE(n)}willUpdate(e){}_$AE(e){this._$EO?.forEach(n=>n.hostUpdated?.()),this.hasUpdated||(this.hasUpdated=!0,this.firstUpdated(e)),this.updated(e)}_$EM(){this._$AL=new Map,this.isUpdatePending=!1}get updateComplete(){return this.getUpdateComplete()}getUpdateComplete(){return this._$ES}shouldUpdate(e){return!0}update(e){this._$Eq&&=this._$Eq.forEach(n=>this._$ET(n,this[n])),this._$EM()}updated(e){}firstUpdated(e){}};an.elementStyles=[],an.shadowRootOptions={mode:"open"},an[Zr("elementProperties")]=new Map,an[Zr("finalized")]=new Map,qh?.({ReactiveElement:an}),(Ns.reactiveElementVersions??=[]).push("2.1.2");var Qi=globalThis,el=t=>t,Is=Qi.trustedTypes,tl=Is?Is.createPolicy("lit-html",{createHTML:t=>t}):void 0,Xi="$lit$",ln=`lit$${Math.random().toFixed(9).slice(2)}$`,eo="?"+ln,Yh=`<${eo}>`,Vn=document,Xr=()=>Vn.createComment(""),es=t=>t===null||typeof t!="object"&&typeof t!="function",to=Array.isArray,al=t=>to(t)||typeof t?.[Symbol.iterator]=="function",Zi=`[ 	
\f\r]`,Qr=/<(?:(!--|\/[^a-zA-Z])|(\/?[a-zA-Z][^>\s]*)|(\/?$))/g,nl=/-->/g,rl=/>/g,Hn=RegExp(`>|${Zi}(?:([^\\s"'>=/]+)(${Zi}*=${Zi}*(?:[^ 	
\f\r"'\`<>=]|("|')|))|$)`,"g"),sl=/'/g,il=/"/g,ll=/^(?:script|style|textarea|title)$/i,no=t=>(e,...n)=>({_$litType$:t,strings:e,values:n}),a=no(1),kt=no(2),Pg=no(3),Nt=Symbol.for("lit-noChange"),g=Symbol.for("lit-nothing"),ol=new WeakMap,Un=Vn.createTreeWalker(Vn,129);function cl(t,e){if(!to(t)||!t.hasOwnProperty("raw"))throw Error("invalid template strings array");return tl!==void 0?tl.createHTML(e):e}var dl=(t,e)=>{let n=t.length-1,r=[],s,i=e===2?"<svg>":e===3?"<math>":"",o=Qr;for(let l=0;l<n;l++){let c=t[l],h,m,u=-1,f=0;for(;f<c.length&&(o.lastIndex=f,m=o.exec(c),m!==null);)f=o.lastIndex,o===Qr?m[1]==="!--"?o=nl:m[1]!==void 0?o=rl:m[2]!==void 0?(ll.test(m[2])&&(s=RegExp("</"+m[2],"g")),o=Hn):m[3]!==void 0&&(o=Hn):o===Hn?m[0]===">"?(o=s??Qr,u=-1):m[1]===void 0?u=-2:(u=o.lastIndex-m[2].length,h=m[1],o=m[3]===void 0?Hn:m[3]==='"'?il:sl):o===il||o===sl?o=Hn:o===nl||o===rl?o=Qr:(o=Hn,s=void 0);let v=o===Hn&&t[l+1].startsWith("/>")?" ":"";i+=o===Qr?c+Yh:u>=0?(r.push(h),c.slice(0,u)+Xi+c.slice(u)+ln+v):c+ln+(u===-2?l:v)}return[cl(t,i+(t[n]||"<?>")+(e===2?"</svg>":e===3?"</math>":"")),r]},ts=class t{constructor({strings:e,_$litType$:n},r){let s;this.parts=[];let i=0,o=0,l=e.length-1,c=this.parts,[h,m]=dl(e,n);if(this.el=t.createElement(h,r),Un.currentNode=this.el.content,n===2||n===3){let u=this.el.content.firstChild;u.replaceWith(...u.childNodes)}for(;(s=Un.nextNode())!==null&&c.length<l;){if(s.nodeType===1){if(s.hasAttributes())for(let u of s.getAttributeNames())if(u.endsWith(Xi)){let f=m[o++],v=s.getAttribute(u).split(ln),y=/([.?@])?(.*)/.exec(f);c.push({type:1,index:i,name:y[2],strings:v,ctor:y[1]==="."?Ps:y[1]==="?"?Rs:y[1]==="@"?Ds:Wn}),s.removeAttribute(u)}else u.startsWith(ln)&&(c.push({type:6,index:i}),s.removeAttribute(u));if(ll.test(s.tagName)){let u=s.textContent.split(ln),f=u.length-1;if(f>0){s.textContent=Is?Is.emptyScript:"";for(let v=0;v<f;v++)s.append(u[v],Xr()),Un.nextNode(),c.push({type:2,index:++i});s.append(u[f],Xr())}}}else if(s.nodeType===8)if(s.data===eo)c.push({type:2,index:i});else{let u=-1;for(;(u=s.data.indexOf(ln,u+1))!==-1;)c.push({type:7,index:i}),u+=ln.length-1}i++}}static createElement(e,n){let r=Vn.createElement("template");return r.innerHTML=e,r}};function Fn(t,e,n=t,r){if(e===Nt)return e;let s=r!==void 0?n._$Co?.[r]:n._$Cl,i=es(e)?void 0:e._$litDirective$;return s?.constructor!==i&&(s?._$AO?.(!1),i===void 0?s=void 0:(s=new i(t),s._$AT(t,n,r)),r!==void 0?(n._$Co??=[])[r]=s:n._$Cl=s),s!==void 0&&(e=Fn(t,s._$AS(t,e.values),s,r)),e}var Ls=class{constructor(e,n){this._$AV=[],this._$AN=void 0,this._$AD=e,this._$AM=n}get parentNode(){return this._$AM.parentNode}get _$AU(){return this._$AM._$AU}u(e){let{el:{content:n},parts:r}=this._$AD,s=(e?.creationScope??Vn).importNode(n,!0);Un.currentNode=s;let i=Un.nextNode(),o=0,l=0,c=r[0];for(;c!==void 0;){if(o===c.index){let h;c.type===2?h=new xr(i,i.nextSibling,this,e):c.type===1?h=new c.ctor(i,c.name,c.strings,this,e):c.type===6&&(h=new zs(i,this,e)),this._$AV.push(h),c=r[++l]}o!==c?.index&&(i=Un.nextNode(),o++)}return Un.currentNode=Vn,s}p(e){let n=0;for(let r of this._$AV)r!==void 0&&(r.strings!==void 0?(r._$AI(e,r,n),n+=r.strings.length-2):r._$AI(e[n])),n++}},xr=class t{get _$AU(){return this._$AM?._$AU??this._$Cv}constructor(e,n,r,s){this.type=2,this._$AH=g,this._$AN=void 0,this._$AA=e,this._$AB=n,this._$AM=r,this.options=s,this._$Cv=s?.isConnected??!0}get parentNode(){let e=this._$AA.parentNode,n=this._$AM;return n!==void 0&&e?.nodeType===11&&(e=n.parentNode),e}get startNode(){return this._$AA}get endNode(){return this._$AB}_$AI(e,n=this){e=Fn(this,e,n),es(e)?e===g||e==null||e===""?(this._$AH!==g&&this._$AR(),this._$AH=g):e!==this._$AH&&e!==Nt&&this._(e):e._$litType$!==void 0?this.$(e):e.nodeType!==void 0?this.T(e):al(e)?this.k(e):this._(e)}O(e){return this._$AA.parentNode.insertBefore(e,this._$AB)}T(e){this._$AH!==e&&(this._$AR(),this._$AH=this.O(e))}_(e){this._$AH!==g&&es(this._$AH)?this._$AA.nextSibling.data=e:this.T(Vn.createTextNode(e)),this._$AH=e}$(e){let{values:n,_$litType$:r}=e,s=typeof r=="number"?this._$AC(e):(r.el===void 0&&(r.el=ts.createElement(cl(r.h,r.h[0]),this.options)),r);if(this._$AH?._$AD===s)this._$AH.p(n);else{let i=new Ls(s,this),o=i.u(this.options);i.p(n),this.T(o),this._$AH=i}}_$AC(e){let n=ol.get(e.strings);return n===void 0&&ol.set(e.strings,n=new ts(e)),n}k(e){to(this._$AH)||(this._$AH=[],this._$AR());let n=this._$AH,r,s=0;for(let i of e)s===n.length?n.push(r=new t(this.O(Xr()),this.O(Xr()),this,this.options)):r=n[s],r._$AI(i),s++;s<n.length&&(this._$AR(r&&r._$AB.nextSibling,s),n.length=s)}_$AR(e=this._$AA.nextSibling,n){for(this._$AP?.(!1,!0,n);e!==this._$AB;){let r=el(e).nextSibling;el(e).remove(),e=r}}setConnected(e){this._$AM===void 0&&(this._$Cv=e,this._$AP?.(e))}},Wn=class{get tagName(){return this.element.tagName}get _$AU(){return this._$AM._$AU}constructor(e,n,r,s,i){this.type=1,this._$AH=g,this._$AN=void 0,this.element=e,this.name=n,this._$AM=s,this.options=i,r.length>2||r[0]!==""||r[1]!==""?(this._$AH=Array(r.length-1).fill(new String),this.strings=r):this._$AH=g}_$AI(e,n=this,r,s){let i=this.strings,o=!1;if(i===void 0)e=Fn(this,e,n,0),o=!es(e)||e!==this._$AH&&e!==Nt,o&&(this._$AH=e);else{let l=e,c,h;for(e=i[0],c=0;c<i.length-1;c++)h=Fn(this,l[r+c],n,c),h===Nt&&(h=this._$AH[c]),o||=!es(h)||h!==this._$AH[c],h===g?e=g:e!==g&&(e+=(h??"")+i[c+1]),this._$AH[c]=h}o&&!s&&this.j(e)}j(e){e===g?this.element.removeAttribute(this.name):this.element.setAttribute(this.name,e??"")}},Ps=class extends Wn{constructor(){super(...arguments),this.type=3}j(e){this.element[this.name]=e===g?void 0:e}},Rs=class extends Wn{constructor(){super(...arguments),this.type=4}j(e){this.element.toggleAttribute(this.name,!!e&&e!==g)}},Ds=class extends Wn{constructor(e,n,r,s,i){super(e,n,r,s,i),this.type=5}_$AI(e,n=this){if((e=Fn(this,e,n,0)??g)===Nt)return;let r=this._$AH,s=e===g&&r!==g||e.capture!==r.capture||e.once!==r.once||e.passive!==r.passive,i=e!==g&&(r===g||s);s&&this.element.removeEventListener(this.name,this,r),i&&this.element.addEventListener(this.name,this,e),this._$AH=e}handleEvent(e){typeof this._$AH=="function"?this._$AH.call(this.options?.host??this.element,e):this._$AH.handleEvent(e)}},zs=class{constructor(e,n,r){this.element=e,this.type=6,this._$AN=void 0,this._$AM=n,this.options=r}get _$AU(){return this._$AM._$AU}_$AI(e){Fn(this,e)}},hl={M:Xi,P:ln,A:eo,C:1,L:dl,R:Ls,D:al,V:Fn,I:xr,H:Wn,N:Rs,U:Ds,B:Ps,F:zs},Gh=Qi.litHtmlPolyfillSupport;Gh?.(ts,xr),(Qi.litHtmlVersions??=[]).push("3.3.3");var ul=(t,e,n)=>{let r=n?.renderBefore??e,s=r._$litPart$;if(s===void 0){let i=n?.renderBefore??null;r._$litPart$=s=new xr(e.insertBefore(Xr(),i),i,void 0,n??{})}return s._$AI(t),s};var ro=globalThis,He=class extends an{constructor(){super(...arguments),this.renderOptions={host:this},this._$Do=void 0}createRenderRoot(){let e=super.createRenderRoot();return this.renderOptions.renderBefore??=e.firstChild,e}update(e){let n=this.render();this.hasUpdated||(this.renderOptions.isConnected=this.isConnected),super.update(e),this._$Do=ul(n,this.renderRoot,this.renderOptions)}connectedCallback(){super.connectedCallback(),this._$Do?.setConnected(!0)}disconnectedCallback(){super.disconnectedCallback(),this._$Do?.setConnected(!1)}render(){return Nt}};He._$litElement$=!0,He.finalized=!0,ro.litElementHydrateSupport?.({LitElement:He});var Jh=ro.litElementPolyfillSupport;Jh?.({LitElement:He});(ro.litElementVersions??=[]).push("4.2.2");var Hs=class extends EventTarget{#e=new Map;pending=0;constructor(e){super(),this.source=e}read(e,n={}){let r=$n(e,n),s=this.#e.get(r);return s||this.#e.set(r,s={value:void 0,error:void 0,stale:!0,asked:!1}),s.stale&&!s.asked&&this.#t(r,s),s}invalidate(){for(let[e,n]of this.#e)performance.now()-n.read>6e4?this.#e.delete(e):n.stale=!0;this.dispatchEvent(new Event("change"))}async#t(e,n){n.asked=!0,this.pending+=1,n.read=performance.now();try{n.value=await this.source.get(e),n.error=void 0}catch(r){n.error=r}n.stale=n.asked=!1,this.pending-=1,this.dispatchEvent(new Event("change"))}};function $n(t,e={}){let n=Object.entries(e).filter(([,s])=>s!=null&&s!=="").flatMap(([s,i])=>Array.isArray(i)?i.map(o=>[s,o]):[[s,i]]),r=new URLSearchParams(n.sort(([s],[i])=>s<i?-1:s>i?1:0)).toString();return r?`${t}?${r}`:t}var Kh=new Intl.NumberFormat("en-US"),L=t=>Kh.format(t??0),Zh=new Intl.NumberFormat("en-US",{notation:"compact",maximumFractionDigits:1}),pl=t=>Zh.format(t),Z=(t,e,n=`${e}s`)=>`${L(t)} ${t===1?e:n}`;function ie(t){if(t==null||Number.isNaN(t))return"–";if(t<.001)return t<=0?"0 s":"<1 ms";if(t<.1)return`${Math.round(t*1e3)} ms`;if(t<10)return`${t.toFixed(t<1?2:1)} s`;if(t<60)return`${Math.round(t)} s`;let e=Math.round(t/60);if(t<3600){let n=Math.round(t%60);return n&&n<60&&t<600?`${Math.floor(t/60)} min ${n} s`:`${e} min`}if(t<86400){let n=Math.floor(e/60);return e%60?`${n} h ${e%60} min`:`${n} h`}return`${(t/86400).toFixed(1)} days`}function Re(t){if(t==null)return"–";for(let[e,n]of[["GB",1e9],["MB",1e6],["KB",1e3]])if(t>=n)return`${(t/n).toFixed(t/n<10?1:0)} ${e}`;return`${t} B`}function kr(t,e=Date.now()){let n=(e-Date.parse(t))/1e3;return Number.isNaN(n)?"":n<10?"just now":n<60?`${Math.round(n)} s ago`:n<3600?`${Math.round(n/60)} min ago`:n<86400?`${Math.round(n/3600)} h ago`:n<86400*14?`${Math.round(n/86400)} days ago`:t.slice(0,10)}var It=t=>t?t.replace("T"," ").replace(/\.\d+/,"").replace("Z"," UTC"):"",vn=t=>String(t??"").replace(/\s+Traceback \(most recent call last\):[^]*$/,""),Ue=t=>t?`${t.replace(/^sha256:/,"").slice(0,8)}`:"";function tn(t){let e=t.indexOf(":"),n=e>0?t.slice(0,e):"",r=t.slice(e+1);return n!=="Job"?{kind:n,name:r,index:""}:{kind:n,name:r.replace(Us,""),index:(r.match(Us)??[]).join("")}}var Us=/\[(?:"(?:[^"\\]|\\.)*"|[^[\]"]+)\]/g,Vt=(t,e)=>`Job:${e===""||e.startsWith("[")?t+e:e}`,ut=t=>t.replace(/^(Job|Artifact|Input):/,"");function Le(t,e=160){let n=typeof t=="string"?`“${t}”`:JSON.stringify(t);return n===void 0?"":n.length>e?`${n.slice(0,e)}…`:n}var Qh={diamond:"M6 .6 11.4 6 6 11.4.6 6Z",disc:"M6 1.4a4.6 4.6 0 1 0 0 9.2 4.6 4.6 0 0 0 0-9.2Z",ring:"M6 1a5 5 0 1 0 0 10A5 5 0 0 0 6 1Zm0 2a3 3 0 1 1 0 6 3 3 0 0 1 0-6Z",square:"M1.6 1.6h8.8v8.8H1.6Z",play:"M2.4 1 11 6l-8.6 5Z",pause:"M2 1.4h2.8v9.2H2Zm5.2 0H10v9.2H7.2Z",reuse:"M6 1a5 5 0 0 0-3.5 8.5L1 11h4.4V6.6L3.9 8.1A3 3 0 1 1 6 9v2A5 5 0 0 0 6 1Z",dash:"M1.2 4.8h9.6v2.4H1.2Z",pin:"M3.4.8h5.2L8 2v2.8l1.8 1.8v1H6.7V11L6 11.8 5.3 11V7.6H2.2v-1L4 4.8V2Z",dots:"M2 4.7"+"a1.3 1.3 0 1 0 0 2.6 1.3 1.3 0 0 0 0-2.6Zm4 0".repeat(2)+"a1.3 1.3 0 1 0 0 2.6 1.3 1.3 0 0 0 0-2.6Z",stop:"M3.9.9h4.2l3 3v4.2l-3 3H3.9l-3-3V3.9Z"},_r={running:{word:"running",shape:"play",tone:"live",means:"it executes now"},failed:{word:"failed",shape:"square",tone:"bad",means:"its last attempt failed"},planned:{word:"will run",shape:"diamond",tone:"run",means:"the next run executes it"},reused:{word:"reused",shape:"reuse",tone:"reuse",means:"an earlier result is taken"},deferred:{word:"deferred",shape:"pause",tone:"wait",means:"it would run, but was not asked for"},open:{word:"not known yet",shape:"dots",tone:"wait",means:"an earlier job decides"},pinned:{word:"pinned",shape:"pin",tone:"ok",means:"its result is kept on purpose"},inactive:{word:"inactive",shape:"dash",tone:"off",means:"a condition is false"},clean:{word:"up to date",shape:"disc",tone:"ok",means:"nothing that it reads has changed"}};function fl(){_r.planned={..._r.planned,word:"planned",means:"this run was to execute it"}}var so={succeeded:{word:"succeeded",shape:"disc",tone:"ok"},timed_out:{word:"timed out",shape:"square",tone:"bad"},interrupted:{word:"interrupted",shape:"stop",tone:"bad"},skipped:{word:"skipped",shape:"dash",tone:"off"},blocked:{word:"blocked",shape:"pause",tone:"wait"},never:{word:"never ran",shape:"ring",tone:"off"},never_run:{word:"never ran",shape:"ring",tone:"off"},executed:{word:"executed",shape:"disc",tone:"ok"},waiting:{word:"waiting",shape:"ring",tone:"off"}},G=t=>_r[t]??so[t]??_r[String(t).toLowerCase()]??so[String(t).toLowerCase()]??{word:String(t).replaceAll("_"," "),shape:"ring",tone:"off"},io={c:"clean",p:"planned",r:"reused",d:"deferred",i:"inactive",o:"open",n:"pinned"},ml=t=>(_r[t]??so[t])?.word??t;function Vs(t){let e={};for(let n of t){let r=io[n]??n;e[r]=(e[r]??0)+1}return e}var Er=Object.keys(_r),cn=t=>Er.indexOf(t)+1||Er.length+1,ns=t=>Qh[G(t).shape],he=(t,e="")=>kt`<svg class="glyph tone-${G(t).tone} ${e}" viewBox="0 0 12 12"
width="12" height="12" aria-hidden="true"><path fill-rule="evenodd" d=${ns(t)}></path></svg>`;var oo=200,Xh=50,ao=100;async function wl(t){let e=await t("m0"),n=e.index??{},r=lo(n.members?.others??{}),s=lo(e),i=n.members?.why??{},o=n.page??1e3;async function l(k){if(s.has(k))return s.get(k);let S=r.get(k);if(S)return lo(await t(S)).get(k)}let c=k=>l($n("cells",{job:k}));async function h(k){let S=await l($n("why",{id:k}));if(S!==void 0)return S;let A=gl(k),_=i[A]&&await c(A);if(!_)return;let N=Bn(_).findIndex(M=>Vt(A,M)===k);if(!(N<0))return m(A,N)}async function m(k,S){let A=Math.floor(S/o),_=i[k]?.[A];if(_)return(await t(_))[`why/${k}/${A}`]?.[S-A*o]}async function u(k){let S=s.get("graph")?.nodes??[],A=k.job?[k.job]:S.map(P=>P.job),_=[];for(let P of A){let C=await c(P);C&&_.push(...eu(P,C,k))}let N=Number(k.page??0),M=await Promise.all(_.slice(N*oo,(N+1)*oo).map(async({id:P,job:C,position:K,state:q,outcome:re,code:Q})=>{let I=await m(C,K),ne=I?.explain?.reasons??[];return{id:P,state:q,outcome:re,code:Q,layer:I?.explain?.layer??I?.job?.layer,text:ne[0]?.text??"",more:Math.max(ne.length-1,0),run:I?.job?.latest_attempt?.run??null,duration:I?.job?.latest_attempt?.duration??null,error:I?.failure?.error??null,outputs:(I?.job?.outputs??[]).map(U=>U.id)}}));return{command:s.get("graph")?.command??null,page:N,pages:Math.ceil(_.length/oo),total:_.length,rows:M}}async function f({kind:k,q:S,job:A,state:_,page:N=0}){let M=await l($n("artifacts",{page:0}));if(!M)return;let P=M.rows.filter(C=>(!k||C.kind===k)&&(!A||gl(C.job??"")===A)&&(!_||C.state===_)&&(!S||C.id.toLowerCase().includes(S.toLowerCase())));return{...M,page:Number(N),pages:Math.max(Math.ceil(P.length/ao),1),total:P.length,rows:P.slice(N*ao,(Number(N)+1)*ao)}}async function v(k){let S=(await Promise.all(k.map(_=>l($n("results",{pattern:_}))))).filter(Boolean);if(!S.length)return;let A=new Map;return S.forEach(({answer:_},N)=>_.rows.forEach(M=>{let P=JSON.stringify(M.index),C=A.get(P)??{index:M.index,values:[],states:[],artifacts:[],runs:[]};for(let K of["values","states","artifacts","runs"])C[K][N]=M[K][0];A.set(P,C)})),{...S[0],answer:{...S[0].answer,columns:S.map(({answer:_})=>_.columns[0]),rows:[...A.values()]}}}async function y({q:k=""}){let S=k.toLowerCase().split(/\s+/).filter(Boolean),A=P=>S.every(C=>P.toLowerCase().includes(C)),_=[],N=0,M=(P,C,K)=>{_.length<Xh?_.push({kind:P,id:C,text:K}):N+=1};for(let{run:P,state:C}of s.get("state")?.runs??[])A(P)&&M("run",P,C);for(let P of s.get("graph")?.inputs??[])A(P.id)&&M("input",P.id,P.type);for(let P of s.get("graph")?.nodes??[]){let C=await c(P.job);if(!C)continue;let K=Bn(C);for(let q=0;q<K.length;q++){let re=Vt(P.job,K[q]);A(re)&&M("job",re,`${C.legend?.states?.[C.states[q]]??io[C.states[q]]??""} · ${P.action}`)}for(let q of P.shown??[])A(q.id)&&M("artifact",q.id,q.type)}return{command:null,q:k,hits:_,more:N}}return async k=>{let S=await l(k);if(S!==void 0&&!k.startsWith("artifacts"))return S;let[A,_=""]=k.split("?",2),N=Object.fromEntries(new URLSearchParams(_));if(A==="why"&&!N.at)return h(N.id);if(A==="focus")return(await h(N.id))?.focus;if(A==="artifacts")return f(N);if(A==="results")return v(new URLSearchParams(_).getAll("pattern"));if(A==="instances")return u(N);if(A==="search")return y(N)}}function lo(t){let e=new Map;for(let[n,r]of Object.entries(t)){let[s,i]=n.split("?",2);e.set(i===void 0?n:$n(s,Object.fromEntries(new URLSearchParams(i))),r)}return e}var gl=t=>tn(t).name;function Bn(t){return t.texts??Array.from({length:t.count},(e,n)=>t.axes?.length?`[${n}]`:"")}function*eu(t,e,{state:n,outcome:r,code:s,q:i}){let o=Bn(e);for(let l=0;l<e.count;l++){let c={id:Vt(t,o[l]),job:t,position:l,state:e.legend?.states?.[e.states[l]]??e.states[l],outcome:e.legend?.outcomes?.[e.outcomes[l]]??e.outcomes[l],code:e.headline?.[l]&&e.headline[l]!=="."?e.headlines[parseInt(e.headline[l],36)]:null};n&&c.state!==n||r&&c.outcome!==r||s&&c.code!==s||i&&!c.id.toLowerCase().includes(i.toLowerCase())||(yield c)}}var rs=class extends Error{constructor({code:e,message:n,hint:r}){super(n),this.code=e,this.hint=r}},co=class{live=!0;async get(e){let n;try{n=await fetch(`api/${e}`,{headers:{accept:"application/json"}})}catch{throw new rs({code:"NO_SERVER",message:"The server does not answer.",hint:"Start whyrun view again and open the address that it prints."})}let r=await n.json().catch(()=>null);if(n.ok&&r)return r;throw new rs(r?.diagnostics?.[0]??{code:`HTTP_${n.status}`,message:n.statusText||"The server sent no answer."})}url(e){return e??null}leftOut(){return[]}},ho=class{live=!1;#e=new Map;#t=new Map;#r;#n;async get(e){this.#r??=wl(r=>this.member(r)),this.#n??=(await this.member("m0")).index??{};let n=await(await this.#r)(e);if(n!==void 0)return n;throw new rs({code:"NOT_IN_REPORT",message:"This is not in the report.",hint:"whyrun view answers it live."})}member(e){return this.#e.has(e)||this.#e.set(e,tu(document.getElementById(e)?.textContent)),this.#e.get(e)}leftOut(){return this.#n?.left_out??[]}url(e,n){let r=n??/^blob\/([0-9a-f]+)/.exec(e??"")?.[1],s=r&&this.#n?.blobs?.[r];if(!s)return null;if(!this.#t.has(r)){let i=bl(document.getElementById(s.element)?.textContent??"");this.#t.set(r,URL.createObjectURL(new Blob([i],{type:s.media_type})))}return this.#t.get(r)}},bl=t=>Uint8Array.from(atob(t.trim()),e=>e.charCodeAt(0));async function tu(t){if(!t)return{};let e=new Blob([bl(t)]).stream().pipeThrough(new DecompressionStream("gzip"));return new Response(e).json()}function $l(){let t=JSON.parse(document.getElementById("whyrun-config")?.textContent||'{"mode": "live"}');return{config:t,source:t.mode==="report"?new ho:new co}}function vl(t,e,n){let r=null,s,i=()=>{s=new SharedWorker(t,{name:"whyrun"}).port,s.onmessage=({data:o})=>{o.type==="state"?o.data.version!==r&&(r=o.data.version,e.invalidate()):o.type==="reset"?e.invalidate():o.type==="lost"&&(r=null),n(o)},s.start?.()};i(),setInterval(()=>s.postMessage("here"),3e4),addEventListener("pagehide",()=>s.postMessage("bye")),addEventListener("pageshow",o=>{o.persisted&&(i(),e.invalidate())})}var nu=["graph","why","artifacts","artifact","results","runs","run","plan","whatif","diff","lineage","datasets"],ru=t=>encodeURIComponent(t).replace(/[!'()*]/g,e=>"%"+e.charCodeAt(0).toString(16).toUpperCase());function su(t){try{return decodeURIComponent(t)}catch{return t}}function Fs(t){let[e,n=""]=t.replace(/^#\/?/,"").split("?",2),[r,...s]=e.split("/");return{view:nu.includes(r)?r:r?"unknown":"graph",args:s.filter(Boolean).map(su),params:Object.fromEntries(new URLSearchParams(n))}}function T(t,...e){let n=e.at(-1),r=n&&typeof n=="object"?e.pop():{},s=new URLSearchParams(Object.entries(r).filter(([,i])=>i!=null&&i!=="")).toString();return`#/${[t,...e.map(ru)].join("/")}${s?`?${s}`:""}`}function yn(t){return/^Artifact:/.test(t)?T("artifact",t):/^r\d{4,}$/.test(t)?T("run",t):T("why",t)}function Ve(t){let{view:e,args:n,params:r}=Fs(location.hash);history.replaceState(null,"",T(e,...n,{...r,...t})),dispatchEvent(new HashChangeEvent("hashchange"))}function be(t,{kind:e=!0}={}){let n=tn(t),r=t.slice(n.kind?n.kind.length+1:0).split(/(?<=[./\]])(?=.)/);return a`${e&&n.kind?a`<span class="kind">${n.kind}:</span>`:g}${r.map((s,i)=>a`${i?a`<wbr />`:g}${s}`)}`}var W=(t,{kind:e=!0,href:n}={})=>a`<a class="id" href=${n??yn(t)} data-id=${t} title=${t}>${be(t,{kind:e})}</a>`,pt=(t,{words:e}={})=>a`<span class="chip tone-${G(t).tone}" data-state=${t} title=${G(t).means??g}
>${he(t)}<span>${e??G(t).word}</span></span
>`;function xn(t,{label:e=!0}={}){let n=Yn(t),r=n.reduce((o,[,l])=>o+l,0);if(!r)return g;let s=n.map(([o,l])=>`${L(l)} ${G(o).word}`).join(", "),i=0;return a`<svg
class="bar"
viewBox="0 0 100 4"
preserveAspectRatio="none"
role=${e?"img":g}
aria-label=${e?s:g}
aria-hidden=${e?g:"true"}
>
${n.map(([o,l])=>{let c=l/r*100,h=i;return i+=c,iu(h,c,G(o).tone)})}
</svg>`}var iu=(t,e,n)=>kt`<rect x=${t+(t?.4:0)} y="0" width=${Math.max(e-(t?.4:0),.6)}
height="4" class="fill-${n}"></rect>`,Yn=t=>Object.entries(t??{}).filter(([,e])=>e>0).sort(([e],[n])=>cn(e)-cn(n)),Ws=t=>a`<p class="said-line">
${Yn(t).map(([e,n])=>a`<span class="said tone-${G(e).tone}" data-total=${e} data-count=${n}>
${he(e)}${L(n)} ${G(e).word}
</span>`)}
</p>`,ou=/^[\w@%+=:,./~-]+$/,au=t=>ou.test(t)?t:`'${t.replaceAll("'","'\\''")}'`,lu=t=>Array.isArray(t)?t.map(au).join(" "):t;function $e(t,{note:e="The same in a terminal"}={}){if(!t||!t.length)return g;let n=lu(t);return a`<figure class="command">
<figcaption>${e}</figcaption>
<div class="command-line"><code>${cu(n)}</code>${kn(n,"Copy the command")}</div>
</figure>`}var cu=t=>t.split(/( )/).map(e=>e.length<24&&e!==" "?a`<span class="word">${e}</span>`:e),kn=(t,e="Copy")=>a`<button
class="copy"
type="button"
aria-label=${e}
title=${e}
@click=${n=>du(n.currentTarget,t)}
>
${le.copy}<span class="copied" aria-live="polite"></span>
</button>`;async function du(t,e){let n=t.querySelector(".copied");try{await navigator.clipboard.writeText(typeof e=="function"?e():e),n.textContent="Copied"}catch(r){n.textContent="Select and copy by hand",console.warn(r)}setTimeout(()=>{n.textContent=""},1600)}var _e=(t,e="")=>a`<div class="empty">
<p class="empty-title">${t}</p>
${e?a`<p>${e}</p>`:g}
</div>`,ss=()=>a`<div class="waiting" role="status" aria-label="Loading"><span></span><span></span><span></span></div>`;function ve({value:t,error:e},n,{loading:r=ss}={}){return e?Gn(e):t===void 0?r():n(t)}var qn=t=>String(t).split("`").map((e,n,r)=>n%2&&r.length%2?a`<code>${e}</code>`:e),Gn=t=>a`<div class="problem" role="alert" data-code=${t.code??"ERROR"}>
${t.code?a`<p class="code">${t.code}</p>`:g}
<p>${qn(t.message??String(t))}</p>
${t.hint?a`<p class="soft">${qn(t.hint)}</p>`:g}
</div>`,Wt=t=>a`<dl class="facts">
${t.filter(([,e])=>e!=null&&e!==""&&e!==g).map(([e,n])=>a`<div>
<dt>${e}</dt>
<dd>${n}</dd>
</div>`)}
</dl>`,te=(t,e,{aside:n=g,id:r=g}={})=>a`<section class="section" id=${r}>
<h2><span>${t}</span>${n}</h2>
${e}
</section>`,Ft=t=>kt`<svg class="icon" viewBox="0 0 16 16" width="16" height="16" aria-hidden="true"><path d=${t}></path></svg>`,le={copy:Ft("M5.5 5.5v-3h8v8h-3M2.5 5.5h8v8h-8Z"),search:Ft("M7 2.5a4.5 4.5 0 1 0 0 9 4.5 4.5 0 0 0 0-9ZM10.3 10.3l3.4 3.4"),back:Ft("M9.5 3 4.5 8l5 5"),on:Ft("M6.5 3l5 5-5 5"),close:Ft("M4 4l8 8M12 4l-8 8"),plus:Ft("M8 3v10M3 8h10"),minus:Ft("M3 8h10"),fit:Ft("M2.5 6V2.5H6M10 2.5h3.5V6M13.5 10v3.5H10M6 13.5H2.5V10"),theme:Ft("M8 2a6 6 0 1 0 0 12ZM8 2a6 6 0 0 1 0 12"),arrow:Ft("M2.5 8h11M9.5 4l4 4-4 4"),help:Ft("M6 6a2 2 0 1 1 2.8 1.8c-.5.3-.8.7-.8 1.4M8 11.5v.6")};function yl(t){let{ui:e}=t,n=e.query.trim(),r=e.searching&&n?t.read("search",{q:n}):null,s=r?.value?.hits??[],i=h=>{t.ui={...t.ui,...h}},o=h=>{i({searching:!1,query:""}),t.querySelector("#search").blur(),location.hash=hu(h)},l=h=>{h.key==="ArrowDown"?(i({active:Math.min(e.active+1,s.length-1)}),h.preventDefault()):h.key==="ArrowUp"?(i({active:Math.max(e.active-1,0)}),h.preventDefault()):h.key==="Enter"&&s[e.active]&&o(s[e.active])},c=e.searching&&n&&r;return a`<div class="search" role="search">
<label class="field"
>${le.search}<input
id="search"
type="text"
autocomplete="off"
spellcheck="false"
placeholder="Jump to a job, artifact or run"
role="combobox"
aria-label="Jump to a job, artifact, input or run"
aria-expanded=${c?"true":"false"}
aria-controls=${c?"hits":g}
aria-autocomplete="list"
aria-activedescendant=${c&&s.length?`hit-${e.active}`:g}
.value=${e.query}
@input=${h=>i({query:h.target.value,searching:!0,active:0})}
@focus=${()=>i({searching:!0})}
@blur=${()=>setTimeout(()=>i({searching:!1}),150)}
@keydown=${l}
/><kbd>/</kbd></label
>
${c?a`<div class="hits">
<ul id="hits" role="listbox" aria-label="Hits">
${s.map((h,m)=>a`<li
role="option"
id=${`hit-${m}`}
aria-selected=${m===e.active?"true":"false"}
data-id=${h.id}
@pointerdown=${u=>{u.preventDefault(),o(h)}}
>
<span class="hit-kind">${h.kind}</span><span class="id">${be(h.id,{kind:!1})}</span>
<span class="soft">${(h.text??"").split(" · ").map(ml).join(" · ")}</span>
</li>`)}
</ul>
${s.length?r.value?.more?a`<p class="soft">and ${r.value.more} more; type more letters</p>`:g:a`<p class="soft">
${r.error?r.error.message:r.value?"Nothing has this name.":"Looking …"}
</p>`}
</div>`:g}
</div>`}var hu=t=>/^#\//.test(t.href??"")?t.href:yn(t.id);var xl={g:"graph",a:"artifacts",r:"runs",e:"results",w:"whatif",c:"diff",l:"lineage",d:"datasets"},kl=[["/","search: a job, an artifact, an input, a run"],["← →","in the graph: back to the cause, on to the consequence"],["↑ ↓","in the graph: the instance before or after"],["esc","clear the selection"],["+ − 0","zoom in, zoom out, show everything"],["i","open or close imports"],["[ ]","the plan of the run before or after"],["y","copy the command of this view"],["t","light or dark"],["g a e r","graph, artifacts, results, runs"],["w c l d","what if, compare, lineage, datasets"],["?","these keys"]];function _l(t,e){if(t.ctrlKey||t.metaKey||t.altKey)return;let n=t.target.closest?.("input, textarea, select, [contenteditable]");if(t.key==="Escape"){e.ui.help?e.ui={...e.ui,help:!1}:n?n.blur():e.route.view==="why"?location.hash=T("graph"):e.route.params.list&&Ve({list:null,q:null,page:null,code:null});return}if(n||e.ui.help)return;let r=uu(t,e);r&&(t.preventDefault(),r())}function uu(t,e){let n=e.querySelector("wr-graph"),r=["graph","why"].includes(e.route.view)&&n&&!t.target.closest?.(".panel, .time, .tabs, [role=slider], canvas");switch(t.key){case"/":return()=>e.querySelector("#search").focus();case"?":return()=>{e.ui={...e.ui,help:!0}};case"t":return()=>e.setTheme();case"y":return()=>e.querySelector("#main .command .copy")?.click();case"[":case"]":return()=>pu(e,t.key==="]"?1:-1);case"+":case"=":return n&&(()=>n.zoom(1.25));case"-":return n&&(()=>n.zoom(.8));case"0":return n&&(()=>{n.moved=!1,n.fit({whole:!0})});case"i":return n&&(()=>n.toggleGroups());case"ArrowLeft":case"ArrowRight":return r&&(()=>{let s=n.neighbour(t.key==="ArrowRight"?1:-1);s&&(location.hash=s)});case"ArrowUp":case"ArrowDown":return r&&e.route.view==="why"&&(()=>e.querySelector(t.key==="ArrowUp"?"[data-step=before]":"[data-step=after]")?.click());default:return xl[t.key]&&(()=>{location.hash=T(xl[t.key])})}}function pu(t,e){let n=(t.read("state").value?.runs??[]).filter(i=>i.mode==="run").map(i=>i.run),s=(t.route.view==="plan"?n.indexOf(t.route.args[0]):n.length)+e;s>=0&&s<n.length?location.hash=T("plan",n[s]):s===n.length&&(location.hash=T("graph"))}var El=t=>a`<dialog
class="help"
aria-label="Keys and shapes"
@close=${t}
@click=${e=>{e.target===e.currentTarget&&t()}}
>
<button type="button" class="plain close" @click=${t} aria-label="Close">${le.close}</button>
<h2>Keys</h2>
<dl>
${kl.map(([e,n])=>a`<div>
<dt>${e.split(" ").map(r=>a`<kbd>${r}</kbd>`)}</dt>
<dd>${n}</dd>
</div>`)}
</dl>
<h2>Shapes</h2>
<dl>
${Er.map(e=>a`<div>
<dt>${he(e)} ${G(e).word}</dt>
<dd>${G(e).means}</dd>
</div>`)}
</dl>
</dialog>`;var Sl={ATTRIBUTE:1,CHILD:2,PROPERTY:3,BOOLEAN_ATTRIBUTE:4,EVENT:5,ELEMENT:6},Bs=t=>(...e)=>({_$litDirective$:t,values:e}),Sr=class{constructor(e){}get _$AU(){return this._$AM._$AU}_$AT(e,n,r){this._$Ct=e,this._$AM=n,this._$Ci=r}_$AS(e,n){return this.update(e,n)}update(e,n){return this.render(...n)}};var{I:fu}=hl,Ml=t=>t;var Ol=()=>document.createComment(""),Mr=(t,e,n)=>{let r=t._$AA.parentNode,s=e===void 0?t._$AB:e._$AA;if(n===void 0){let i=r.insertBefore(Ol(),s),o=r.insertBefore(Ol(),s);n=new fu(i,o,t,t.options)}else{let i=n._$AB.nextSibling,o=n._$AM,l=o!==t;if(l){let c;n._$AQ?.(t),n._$AM=t,n._$AP!==void 0&&(c=t._$AU)!==o._$AU&&n._$AP(c)}if(i!==s||l){let c=n._$AA;for(;c!==i;){let h=Ml(c).nextSibling;Ml(r).insertBefore(c,s),c=h}}}return n},_n=(t,e,n=t)=>(t._$AI(e,n),t),mu={},Al=(t,e=mu)=>t._$AH=e,Tl=t=>t._$AH,qs=t=>{t._$AR(),t._$AA.remove()};var Cl=(t,e,n)=>{let r=new Map;for(let s=e;s<=n;s++)r.set(t[s],s);return r},jl=Bs(class extends Sr{constructor(t){if(super(t),t.type!==Sl.CHILD)throw Error("repeat() can only be used in text expressions")}dt(t,e,n){let r;n===void 0?n=e:e!==void 0&&(r=e);let s=[],i=[],o=0;for(let l of t)s[o]=r?r(l,o):o,i[o]=n(l,o),o++;return{values:i,keys:s}}render(t,e,n){return this.dt(t,e,n).values}update(t,[e,n,r]){let s=Tl(t),{values:i,keys:o}=this.dt(e,n,r);if(!Array.isArray(s))return this.ut=o,i;let l=this.ut??=[],c=[],h,m,u=0,f=s.length-1,v=0,y=i.length-1;for(;u<=f&&v<=y;)if(s[u]===null)u++;else if(s[f]===null)f--;else if(l[u]===o[v])c[v]=_n(s[u],i[v]),u++,v++;else if(l[f]===o[y])c[y]=_n(s[f],i[y]),f--,y--;else if(l[u]===o[y])c[y]=_n(s[u],i[y]),Mr(t,c[y+1],s[u]),u++,y--;else if(l[f]===o[v])c[v]=_n(s[f],i[v]),Mr(t,s[u],s[f]),f--,v++;else if(h===void 0&&(h=Cl(o,v,y),m=Cl(l,u,f)),h.has(l[u]))if(h.has(l[f])){let k=m.get(o[v]),S=k!==void 0?s[k]:null;if(S===null){let A=Mr(t,s[u]);_n(A,i[v]),c[v]=A}else c[v]=_n(S,i[v]),Mr(t,s[u],S),s[k]=null;v++}else qs(s[f]),f--;else qs(s[u]),u++;for(;v<=y;){let k=Mr(t,c[y+1]);_n(k,i[v]),c[v++]=k}for(;u<=f;){let k=s[u++];k!==null&&qs(k)}return this.ut=o,Al(t,c),Nt}});var uo=class extends Sr{render(){return Nt}update(e,[n]){let{style:r}=e.element;for(let s of this.names??[])s in n||r.removeProperty(s);for(let[s,i]of Object.entries(n))r.setProperty(s,i);return this.names=Object.keys(n),Nt}},We=Bs(uo);var Ys=68,Gs=8,po=14,gu=6,wu=80;function Il({nodes:t,edges:e,groups:n=[]},{rows:r=null,closed:s=new Set,overlay:i=null,widthOf:o}){let l=t.length<=wu,c=new Map;for(let y of r??[]){let k=tn(y.id).name;c.has(k)||c.set(k,[]),c.get(k).push(y)}let h=y=>[...s].filter(k=>y.startsWith(`${k}/`)).sort((k,S)=>k.length-S.length)[0],m=new Map;for(let y of t){let k=h(y.job);if(k){let S=m.get(`group:${k}`)??{id:`group:${k}`,kind:"group",name:k,jobs:0,count:0,states:{},headlines:{},outcomes:{},href:y.first};S.jobs+=1,S.count+=y.count;for(let A of["states","headlines","outcomes"])for(let[_,N]of Object.entries(y[A]??{}))S[A][_]=(S[A][_]??0)+N;m.set(S.id,S)}else{let S=i?.[y.job]??y.states;m.set(y.job,{...y,states:S,id:y.job,kind:"job",parent:y.import||null,instances:c.get(y.job)??[]})}}let u=[...m.values()].map(y=>({...y,...$u(y,l,o)})),f=new Map;for(let y of e){let k=h(y.from)?`group:${h(y.from)}`:y.from,S=h(y.to)?`group:${h(y.to)}`:y.to;if(k===S||!m.has(k)||!m.has(S))continue;let A=i?Nl(m.get(k))&&Nl(m.get(S)):y.dirty,_=`${k}
${S}`,N=f.get(_);N?(N.dirty||=A,y.kind==="data"&&(N.kind="data")):f.set(_,{...y,from:k,to:S,dirty:A})}let v=n.map(y=>y.import).filter(y=>!s.has(y)&&![...s].some(k=>y.startsWith(`${k}/`)));return{boxes:u,edges:[...f.values()],groups:v}}var Nl=t=>(t.states?.planned??0)>0,bu=t=>Math.min(Object.values(t.states??{}).filter(Boolean).length,2)*(t.count>1?14:10);function $u(t,e,n){let r=(t.shown??[]).filter(h=>h.sha256&&(h.kind==="image"||h.kind==="svg")),s=t.kind==="group"?`import · ${t.jobs} jobs`:`${t.count>1?`${t.count.toLocaleString("en-US")} × `:""}${t.action}`,i=Math.max(Math.min(n(t.name,14,620),190)+Math.min(n(s,12),150)+24+2*po,bu(t)*8+2*po,172),o=h=>Math.round(Math.min(Math.max(h+2*po,i),320)),l=66;if(t.kind==="group"||!e)return{content:"none",width:o(0),height:l+(t.kind==="group"?20:0)};if(r.length&&t.count===1)return{content:"picture",images:r.slice(0,1),width:o(170),height:l+132};if(r.length&&t.count<=gu&&t.instances.length===t.count&&t.count<=4)return{content:"instances",images:r,width:o(t.count*(Ys+Gs)-Gs),height:l+Ys+26};if(r.length){let h=r.slice(0,4);return{content:"pictures",images:h,width:o(h.length*(Ys+Gs)-Gs),height:l+Ys+8}}if(t.count>1&&t.count<=48&&t.instances.length===t.count){let h=Math.ceil(t.count/Math.ceil(t.count/12));return{content:"cells",columns:h,width:o(h*18),height:l+Math.ceil(t.count/h)*18+6}}let c=t.shown?.find(h=>h.text);return t.count===1&&c?{content:"text",text:c.text,width:o(150),height:l+22}:{content:"none",width:o(0),height:l}}var vu=.48,is=.62,yu=32,Js=class extends He{constructor(){super(),this.view={x:0,y:0,scale:1},this.moved=!1,this.pointers=new Map}fit({whole:e=!1}={}){if(!this.placed||!this.clientWidth)return;let{width:n,height:r}=this.placed.result,s=this.clientHeight-yu,i=this.clientWidth>1500?1.7:1.3,o=Math.min(i,Math.max(Math.min(this.clientWidth/n,s/r),.05));this.view={scale:o,x:(this.clientWidth-n*o)/2,y:(s-r*o)/2},!e&&o<vu&&this.begin(),this.apply()}begin(){let e=this.beginning(),{width:n,height:r}=this.placed.result,s=(i,o,l)=>l<o?(o-l)/2:Math.min(0,Math.max(o-l,i));this.view={scale:is,x:s(this.clientWidth*.4-e.x*is,this.clientWidth,n*is),y:s(this.clientHeight/2-e.y*is,this.clientHeight,r*is)}}apply(){let e=this.querySelector(".stage");e&&(e.style.transform=`translate(${this.view.x}px, ${this.view.y}px) scale(${this.view.scale})`)}zoom(e,n=this.clientWidth/2,r=this.clientHeight/2){let s=Math.min(Math.max(this.view.scale*e,.05),3),i=s/this.view.scale;this.view={scale:s,x:n-(n-this.view.x)*i,y:r-(r-this.view.y)*i},this.moved=!0,this.apply()}reveal(){let e=this.chosen();if(!e||!this.moved)return;let{scale:n}=this.view,[r,s]=[e.x*n+this.view.x,e.y*n+this.view.y],[i,o]=[e.width*n/2+12,e.height*n/2+12];r-i<0&&(this.view.x+=i-r),r+i>this.clientWidth&&(this.view.x-=r+i-this.clientWidth),s-o<0&&(this.view.y+=o-s),s+o>this.clientHeight&&(this.view.y-=s+o-this.clientHeight),this.apply()}wheel(e){e.preventDefault();let n=this.getBoundingClientRect();this.zoom(Math.exp(-Math.max(-80,Math.min(80,e.deltaY))/240),e.clientX-n.left,e.clientY-n.top)}down(e){e.button||(this.pointers.set(e.pointerId,{x:e.clientX,y:e.clientY}),this.dragged=0)}move(e){let n=this.pointers.get(e.pointerId);if(!n)return;let r=[...this.pointers].filter(([s])=>s!==e.pointerId).map(([,s])=>s);if(r.length){let[s]=r,i=this.getBoundingClientRect(),o=l=>Math.hypot(l.x-s.x,l.y-s.y)||1;this.zoom(o({x:e.clientX,y:e.clientY})/o(n),(e.clientX+s.x)/2-i.left,(e.clientY+s.y)/2-i.top)}else this.dragged+=Math.abs(e.clientX-n.x)+Math.abs(e.clientY-n.y),this.dragged>4&&(this.view.x+=e.clientX-n.x,this.view.y+=e.clientY-n.y,this.moved=!0,this.classList.add("dragging"),this.apply());this.pointers.set(e.pointerId,{x:e.clientX,y:e.clientY})}up(e){this.pointers.delete(e.pointerId),this.classList.remove("dragging")}click(e){this.dragged>4&&!e.target.closest(".zoom")&&(e.preventDefault(),e.stopPropagation()),this.dragged=0}};var Ll='(()=>{var Ne=Object.defineProperty,Ke=(e,t,r)=>t in e?Ne(e,t,{enumerable:!0,configurable:!0,writable:!0,value:r}):e[t]=r,Qe=(e,t)=>{for(var r in t)Ne(e,r,{get:t[r],enumerable:!0})},Ze=(e,t,r)=>Ke(e,typeof t!="symbol"?t+"":t,r),et={};Qe(et,{Graph:()=>S,alg:()=>te});var tt=Object.defineProperty,je=(e,t)=>{for(var r in t)tt(e,r,{get:t[r],enumerable:!0})},ee=class{constructor(e){this._isDirected=!0,this._isMultigraph=!1,this._isCompound=!1,this._nodes={},this._in={},this._preds={},this._out={},this._sucs={},this._edgeObjs={},this._edgeLabels={},this._nodeCount=0,this._edgeCount=0,this._defaultNodeLabelFn=()=>{},this._defaultEdgeLabelFn=()=>{},e&&(this._isDirected="directed"in e?e.directed:!0,this._isMultigraph="multigraph"in e?e.multigraph:!1,this._isCompound="compound"in e?e.compound:!1),this._isCompound&&(this._parent={},this._children={},this._children["\\0"]={})}isDirected(){return this._isDirected}isMultigraph(){return this._isMultigraph}isCompound(){return this._isCompound}setGraph(e){return this._label=e,this}graph(){return this._label}setDefaultNodeLabel(e){return typeof e!="function"?this._defaultNodeLabelFn=()=>e:this._defaultNodeLabelFn=e,this}nodeCount(){return this._nodeCount}nodes(){return Object.keys(this._nodes)}sources(){return this.nodes().filter(e=>Object.keys(this._in[e]).length===0)}sinks(){return this.nodes().filter(e=>Object.keys(this._out[e]).length===0)}setNodes(e,t){return e.forEach(r=>{t!==void 0?this.setNode(r,t):this.setNode(r)}),this}setNode(e,t){return e in this._nodes?(arguments.length>1&&(this._nodes[e]=t),this):(this._nodes[e]=arguments.length>1?t:this._defaultNodeLabelFn(e),this._isCompound&&(this._parent[e]="\\0",this._children[e]={},this._children["\\0"][e]=!0),this._in[e]={},this._preds[e]={},this._out[e]={},this._sucs[e]={},++this._nodeCount,this)}node(e){return this._nodes[e]}hasNode(e){return e in this._nodes}removeNode(e){if(e in this._nodes){let t=r=>this.removeEdge(this._edgeObjs[r]);delete this._nodes[e],this._isCompound&&(this._removeFromParentsChildList(e),delete this._parent[e],this.children(e).forEach(r=>{this.setParent(r)}),delete this._children[e]),Object.keys(this._in[e]).forEach(t),delete this._in[e],delete this._preds[e],Object.keys(this._out[e]).forEach(t),delete this._out[e],delete this._sucs[e],--this._nodeCount}return this}setParent(e,t){if(!this._isCompound)throw new Error("Cannot set parent in a non-compound graph");if(t===void 0)t="\\0";else{t+="";for(let r=t;r!==void 0;r=this.parent(r))if(r===e)throw new Error("Setting "+t+" as parent of "+e+" would create a cycle");this.setNode(t)}return this.setNode(e),this._removeFromParentsChildList(e),this._parent[e]=t,this._children[t][e]=!0,this}parent(e){if(this._isCompound){let t=this._parent[e];if(t!=="\\0")return t}}children(e="\\0"){if(this._isCompound){let t=this._children[e];if(t)return Object.keys(t)}else{if(e==="\\0")return this.nodes();if(this.hasNode(e))return[]}return[]}predecessors(e){let t=this._preds[e];if(t)return Object.keys(t)}successors(e){let t=this._sucs[e];if(t)return Object.keys(t)}neighbors(e){let t=this.predecessors(e);if(t){let r=new Set(t),n=this.successors(e);if(n)for(let i of n)r.add(i);return Array.from(r.values())}}isLeaf(e){var t;let r;return this.isDirected()?r=this.successors(e):r=this.neighbors(e),((t=r?.length)!=null?t:0)===0}filterNodes(e){let t=new this.constructor({directed:this._isDirected,multigraph:this._isMultigraph,compound:this._isCompound});t.setGraph(this.graph()),Object.entries(this._nodes).forEach(([i,o])=>{e(i)&&t.setNode(i,o)}),Object.values(this._edgeObjs).forEach(i=>{t.hasNode(i.v)&&t.hasNode(i.w)&&t.setEdge(i,this.edge(i))});let r={},n=i=>{let o=this.parent(i);return!o||t.hasNode(o)?(r[i]=o,o):o in r?r[o]:n(o)};return this._isCompound&&t.nodes().forEach(i=>t.setParent(i,n(i))),t}setDefaultEdgeLabel(e){return typeof e!="function"?this._defaultEdgeLabelFn=()=>e:this._defaultEdgeLabelFn=e,this}edgeCount(){return this._edgeCount}edges(){return Object.values(this._edgeObjs)}setPath(e,t){return e.reduce((r,n)=>(t!==void 0?this.setEdge(r,n,t):this.setEdge(r,n),n)),this}setEdge(e,t,r,n){let i,o,s,l,a=!1;typeof e=="object"&&e!==null&&"v"in e?(i=e.v,o=e.w,s=e.name,arguments.length===2&&(l=t,a=!0)):(i=e,o=t,s=n,arguments.length>2&&(l=r,a=!0)),i=""+i,o=""+o,s!==void 0&&(s=""+s);let d=V(this._isDirected,i,o,s);if(d in this._edgeLabels)return a&&(this._edgeLabels[d]=l),this;if(s!==void 0&&!this._isMultigraph)throw new Error("Cannot set a named edge when isMultigraph = false");this.setNode(i),this.setNode(o),this._edgeLabels[d]=a?l:this._defaultEdgeLabelFn(i,o,s);let h=rt(this._isDirected,i,o,s);return i=h.v,o=h.w,Object.freeze(h),this._edgeObjs[d]=h,se(this._preds[o],i),se(this._sucs[i],o),this._in[o][d]=h,this._out[i][d]=h,this._edgeCount++,this}edge(e,t,r){let n=arguments.length===1?J(this._isDirected,e):V(this._isDirected,e,t,r);return this._edgeLabels[n]}edgeAsObj(e,t,r){let n=arguments.length===1?this.edge(e):this.edge(e,t,r);return typeof n!="object"||n===null?{label:n}:n}hasEdge(e,t,r){return(arguments.length===1?J(this._isDirected,e):V(this._isDirected,e,t,r))in this._edgeLabels}removeEdge(e,t,r){let n=arguments.length===1?J(this._isDirected,e):V(this._isDirected,e,t,r),i=this._edgeObjs[n];if(i){let o=i.v,s=i.w;delete this._edgeLabels[n],delete this._edgeObjs[n],le(this._preds[s],o),le(this._sucs[o],s),delete this._in[s][n],delete this._out[o][n],this._edgeCount--}return this}inEdges(e,t){return this.isDirected()?this.filterEdges(this._in[e],e,t):this.nodeEdges(e,t)}outEdges(e,t){return this.isDirected()?this.filterEdges(this._out[e],e,t):this.nodeEdges(e,t)}nodeEdges(e,t){if(e in this._nodes)return this.filterEdges({...this._in[e],...this._out[e]},e,t)}_removeFromParentsChildList(e){delete this._children[this._parent[e]][e]}filterEdges(e,t,r){if(!e)return;let n=Object.values(e);return r?n.filter(i=>i.v===t&&i.w===r||i.v===r&&i.w===t):n}};function se(e,t){e[t]?e[t]++:e[t]=1}function le(e,t){e[t]!==void 0&&!--e[t]&&delete e[t]}function V(e,t,r,n){let i=""+t,o=""+r;if(!e&&i>o){let s=i;i=o,o=s}return i+""+o+""+(n===void 0?"\\0":n)}function rt(e,t,r,n){let i=""+t,o=""+r;if(!e&&i>o){let l=i;i=o,o=l}let s={v:i,w:o};return n&&(s.name=n),s}function J(e,t){return V(e,t.v,t.w,t.name)}var nt={};je(nt,{read:()=>lt,write:()=>it});function it(e){let t={options:{directed:e.isDirected(),multigraph:e.isMultigraph(),compound:e.isCompound()},nodes:ot(e),edges:st(e)},r=e.graph();return r!==void 0&&(t.value=structuredClone(r)),t}function ot(e){return e.nodes().map(t=>{let r=e.node(t),n=e.parent(t),i={v:t};return r!==void 0&&(i.value=r),n!==void 0&&(i.parent=n),i})}function st(e){return e.edges().map(t=>{let r=e.edge(t),n={v:t.v,w:t.w};return t.name!==void 0&&(n.name=t.name),r!==void 0&&(n.value=r),n})}function lt(e){let t=new ee(e.options);return e.value!==void 0&&t.setGraph(e.value),e.nodes.forEach(r=>{t.setNode(r.v,r.value),r.parent&&t.setParent(r.v,r.parent)}),e.edges.forEach(r=>{t.setEdge({v:r.v,w:r.w,name:r.name},r.value)}),t}var te={};je(te,{CycleException:()=>z,bellmanFord:()=>Ie,components:()=>ht,dijkstra:()=>B,dijkstraAll:()=>ft,findCycles:()=>gt,floydWarshall:()=>vt,isAcyclic:()=>wt,postorder:()=>bt,preorder:()=>yt,prim:()=>_t,shortestPaths:()=>kt,tarjan:()=>Le,topsort:()=>Me});var dt=()=>1;function Ie(e,t,r,n){return at(e,String(t),r||dt,n||function(i){var o;return(o=e.outEdges(i))!=null?o:[]})}function at(e,t,r,n){let i={},o,s=0,l=e.nodes(),a=function(u){let c=i[u.v],f=i[u.w];if(!c||!f)return;let p=r(u);c.distance+p<f.distance&&(i[u.w]={distance:c.distance+p,predecessor:u.v},o=!0)},d=function(){l.forEach(function(u){n(u).forEach(function(c){let f=c.v===u?c.v:c.w,p=f===c.v?c.w:c.v;a({v:f,w:p})})})};l.forEach(function(u){let c=u===t?0:Number.POSITIVE_INFINITY;i[u]={distance:c,predecessor:""}});let h=l.length;for(let u=1;u<h&&(o=!1,s++,d(),!!o);u++);if(s===h-1&&(o=!1,d(),o))throw new Error("The graph contains a negative weight cycle");return i}function ht(e){let t={},r=[],n;function i(o){var s,l;o in t||(t[o]=!0,n.push(o),(s=e.successors(o))==null||s.forEach(i),(l=e.predecessors(o))==null||l.forEach(i))}return e.nodes().forEach(function(o){n=[],i(o),n.length&&r.push(n)}),r}var Ce=class{constructor(){this._arr=[],this._keyIndices={}}size(){return this._arr.length}keys(){return this._arr.map(e=>e.key)}has(e){return e in this._keyIndices}priority(e){let t=this._keyIndices[e];if(t!==void 0)return this._arr[t].priority}min(){if(this.size()===0)throw new Error("Queue underflow");return this._arr[0].key}add(e,t){let r=this._keyIndices,n=String(e);if(!(n in r)){let i=this._arr,o=i.length;return r[n]=o,i.push({key:n,priority:t}),this._decrease(o),!0}return!1}removeMin(){if(this.size()===0)throw new Error("Queue underflow");this._swap(0,this._arr.length-1);let e=this._arr.pop();return delete this._keyIndices[e.key],this._heapify(0),e.key}decrease(e,t){let r=this._keyIndices[e];if(r===void 0)throw new Error(`Key not found: ${e}`);let n=this._arr[r].priority;if(t>n)throw new Error(`New priority is greater than current priority. Key: ${e} Old: ${n} New: ${t}`);this._arr[r].priority=t,this._decrease(r)}_heapify(e){let t=this._arr,r=2*e,n=r+1,i=e;r<t.length&&(i=t[r].priority<t[i].priority?r:i,n<t.length&&(i=t[n].priority<t[i].priority?n:i),i!==e&&(this._swap(e,i),this._heapify(i)))}_decrease(e){let t=this._arr,r=t[e].priority,n;for(;e!==0&&(n=e>>1,!(t[n].priority<r));)this._swap(e,n),e=n}_swap(e,t){let r=this._arr,n=this._keyIndices,i=r[e],o=r[t];r[e]=o,r[t]=i,n[o.key]=e,n[i.key]=t}},ut=()=>1;function B(e,t,r,n){let i=function(o){var s;return(s=e.outEdges(o))!=null?s:[]};return ct(e,String(t),r||ut,n||i)}function ct(e,t,r,n){let i={},o=new Ce,s,l,a=function(d){let h=d.v!==s?d.v:d.w,u=i[h];if(!u)return;let c=r(d),f=l.distance+c;if(c<0)throw new Error("dijkstra does not allow negative edge weights. Bad edge: "+d+" Weight: "+c);f<u.distance&&(u.distance=f,u.predecessor=s,o.decrease(h,f))};for(e.nodes().forEach(function(d){let h=d===t?0:Number.POSITIVE_INFINITY;i[d]={distance:h,predecessor:""},o.add(d,h)});o.size()>0;){s=o.removeMin();let d=i[s];if(!d||d.distance===Number.POSITIVE_INFINITY)break;l=d,n(s).forEach(a)}return i}function ft(e,t,r){return e.nodes().reduce(function(n,i){return n[i]=B(e,i,t,r),n},{})}function Le(e){let t=0,r=[],n={},i=[];function o(s){var l;let a=n[s]={onStack:!0,lowlink:t,index:t++};if(r.push(s),(l=e.successors(s))==null||l.forEach(function(d){if(d in n){let h=n[d];h!=null&&h.onStack&&(a.lowlink=Math.min(a.lowlink,h.index))}else{o(d);let h=n[d];h&&(a.lowlink=Math.min(a.lowlink,h.lowlink))}}),a.lowlink===a.index){let d=[],h;do{h=r.pop();let u=n[h];u&&(u.onStack=!1),d.push(h)}while(s!==h);i.push(d)}}return e.nodes().forEach(function(s){s in n||o(s)}),i}function gt(e){return Le(e).filter(function(t){var r;let n=t[0];return n?t.length>1||t.length===1&&((r=e.outEdges(n,n))!=null?r:[]).length>0:!1})}var pt=()=>1;function vt(e,t,r){return mt(e,t||pt,r||function(n){var i;return(i=e.outEdges(n))!=null?i:[]})}function mt(e,t,r){let n={},i=e.nodes();return i.forEach(function(o){let s={};n[o]=s,s[o]={distance:0,predecessor:""},i.forEach(function(l){o!==l&&(s[l]={distance:Number.POSITIVE_INFINITY,predecessor:""})}),r(o).forEach(function(l){let a=l.v===o?l.w:l.v,d=t(l);s[a]={distance:d,predecessor:o}})}),i.forEach(function(o){let s=n[o];s&&i.forEach(function(l){let a=n[l];a&&i.forEach(function(d){let h=a[o],u=s[d],c=a[d];if(h&&u&&c){let f=h.distance+u.distance;f<c.distance&&(c.distance=f,c.predecessor=u.predecessor)}})})}),n}var z=class extends Error{constructor(e){super(e),this.name="CycleException"}};function Me(e){let t={},r={},n=[];function i(o){var s;if(o in r)throw new z;o in t||(r[o]=!0,t[o]=!0,(s=e.predecessors(o))==null||s.forEach(i),delete r[o],n.push(o))}if(e.sinks().forEach(i),Object.keys(t).length!==e.nodeCount())throw new z;return n}function wt(e){try{Me(e)}catch(t){if(t instanceof z)return!1;throw t}return!0}function Et(e,t,r,n,i){Array.isArray(t)||(t=[t]);let o=(l=>{var a;return(a=e.isDirected()?e.successors(l):e.neighbors(l))!=null?a:[]}),s={};return t.forEach(function(l){if(!e.hasNode(l))throw new Error("Graph does not have node: "+l);i=Te(e,l,r==="post",s,o,n,i)}),i}function Te(e,t,r,n,i,o,s){return t in n||(n[t]=!0,r||(s=o(s,t)),i(t).forEach(function(l){s=Te(e,l,r,n,i,o,s)}),r&&(s=o(s,t))),s}function Se(e,t,r){return Et(e,t,r,function(n,i){return n.push(i),n},[])}function bt(e,t){return Se(e,t,"post")}function yt(e,t){return Se(e,t,"pre")}function _t(e,t){var r;let n=new ee,i={},o=new Ce,s;function l(h){let u=h.v===s?h.w:h.v,c=o.priority(u);if(c!==void 0){let f=t(h);f<c&&(i[u]=s,o.decrease(u,f))}}if(e.nodeCount()===0)return n;e.nodes().forEach(function(h){o.add(h,Number.POSITIVE_INFINITY),n.setNode(h)});let a=e.nodes()[0];a!==void 0&&o.decrease(a,0);let d=!1;for(;o.size()>0;){if(s=o.removeMin(),s in i)n.setEdge(s,i[s]);else{if(d)throw new Error("Input graph is not connected: "+e);d=!0}(r=e.nodeEdges(s))==null||r.forEach(l)}return n}function kt(e,t,r,n){return xt(e,t,r,n??(i=>{var o;return(o=e.outEdges(i))!=null?o:[]}))}function xt(e,t,r,n){if(r===void 0)return B(e,t,r,n);let i=!1,o=e.nodes();for(let s=0;s<o.length;s++){let l=o[s];if(l===void 0)continue;let a=n(l);for(let d=0;d<a.length;d++){let h=a[d];if(!h)continue;let u=h.v===l?h.v:h.w,c=u===h.v?h.w:h.v;r({v:u,w:c})<0&&(i=!0)}if(i)return Ie(e,t,r,n)}return B(e,t,r,n)}var S=ee;function Y(e,t,r,n){let i=n;for(;e.hasNode(i);)i=re(n);return r.dummy=t,e.setNode(i,r),i}function Ot(e){let t=new S().setGraph(e.graph());return e.nodes().forEach(r=>t.setNode(r,e.node(r))),e.edges().forEach(r=>{let n=t.edge(r.v,r.w)||{weight:0,minlen:1},i=e.edge(r);t.setEdge(r.v,r.w,{weight:n.weight+i.weight,minlen:Math.max(n.minlen,i.minlen)})}),t}function Pe(e){let t=new S({multigraph:e.isMultigraph()}).setGraph(e.graph());return e.nodes().forEach(r=>{e.children(r).length||t.setNode(r,e.node(r))}),e.edges().forEach(r=>{t.setEdge(r,e.edge(r))}),t}function de(e,t){let r=e.x,n=e.y,i=t.x-r,o=t.y-n,s=e.width/2,l=e.height/2;if(!i&&!o)throw new Error("Not possible to find intersection inside of the rectangle");let a,d;return i===0||Math.abs(o)*s>Math.abs(i)*l?(o<0&&(l=-l),a=l*i/o,d=l):(i<0&&(s=-s),a=s,d=s*o/i),{x:r+a,y:n+d}}function $(e){let t=A(Re(e)+1).map(()=>[]);return e.nodes().forEach(r=>{let n=e.node(r),i=n.rank;i!==void 0&&(t[i]||(t[i]=[]),t[i][n.order]=r)}),t}function Nt(e){let t=e.nodes().map(n=>{let i=e.node(n).rank;return i===void 0?Number.MAX_VALUE:i}),r=P(Math.min,t);e.nodes().forEach(n=>{let i=e.node(n);Object.hasOwn(i,"rank")&&(i.rank-=r)})}function jt(e){let t=e.nodes().map(s=>e.node(s).rank).filter(s=>s!==void 0),r=P(Math.min,t),n=[];e.nodes().forEach(s=>{let l=e.node(s).rank-r;n[l]||(n[l]=[]),n[l].push(s)});let i=0,o=e.graph().nodeRankFactor;Array.from(n).forEach((s,l)=>{s===void 0&&l%o!==0?--i:s!==void 0&&i&&s.forEach(a=>e.node(a).rank+=i)})}function ae(e,t,r,n){let i={width:0,height:0};return arguments.length>=4&&(i.rank=r,i.order=n),Y(e,"border",i,t)}function It(e,t=Fe){let r=[];for(let n=0;n<e.length;n+=t){let i=e.slice(n,n+t);r.push(i)}return r}var Fe=65535;function P(e,t){if(t.length>Fe){let r=It(t);return e(...r.map(n=>e(...n)))}else return e(...t)}function Re(e){let t=e.nodes().map(r=>{let n=e.node(r).rank;return n===void 0?Number.MIN_VALUE:n});return P(Math.max,t)}function Ct(e,t){let r={lhs:[],rhs:[]};return e.forEach(n=>{t(n)?r.lhs.push(n):r.rhs.push(n)}),r}function Lt(e,t){return t()}var Mt=0;function re(e){let t=++Mt;return e+(""+t)}function A(e,t,r=1){t==null&&(t=e,e=0);let n=o=>o<t;r<0&&(n=o=>t<o);let i=[];for(let o=e;n(o);o+=r)i.push(o);return i}function G(e,t){let r={};for(let n of t)e[n]!==void 0&&(r[n]=e[n]);return r}function q(e,t){let r;return typeof t=="string"?r=n=>n[t]:r=t,Object.entries(e).reduce((n,[i,o])=>(n[i]=r(o,i),n),{})}function Tt(e,t){return e.reduce((r,n,i)=>(r[n]=t[i],r),{})}var X="\\0";function De(e,t,r){var n,i,o,s,l,a;if(!(e&&t&&r&&t.dummy==="edge"&&r.dummy==="edge"&&t.edgeObj&&r.edgeObj&&e[t.edgeObj.v]&&e[r.edgeObj.v]&&e[t.edgeObj.w]&&e[r.edgeObj.w]))return 0;let d=!0;t.edgeObj.w===r.edgeObj.w&&(d=!1);let h=d?(i=(n=e[t.edgeObj.v])==null?void 0:n.rank)!=null?i:NaN+1:(s=(o=e[t.edgeObj.w])==null?void 0:o.rank)!=null?s:NaN-1,u=Object.entries(e).find(w=>{var k,E;return((k=w[1].edgeObj)==null?void 0:k.v)===t.edgeObj.v&&((E=w[1].edgeObj)==null?void 0:E.w)===t.edgeObj.w&&w[1].rank===h}),c=Object.entries(e).find(w=>{var k,E;return((k=w[1].edgeObj)==null?void 0:k.v)===r.edgeObj.v&&((E=w[1].edgeObj)==null?void 0:E.w)===r.edgeObj.w&&w[1].rank===h});if(!u||!c)return 0;let f=(l=u[1].order)!=null?l:NaN,p=(a=c[1].order)!=null?a:NaN;return isNaN(f-p)?0:f-p}var St=class{constructor(){Ze(this,"_sentinel");let e={};e._next=e._prev=e,this._sentinel=e}dequeue(){let e=this._sentinel,t=e._prev;if(t!==e)return he(t),t}enqueue(e){let t=this._sentinel;e._prev&&e._next&&he(e),e._next=t._next,t._next._prev=e,t._next=e,e._prev=t}toString(){let e=[],t=this._sentinel,r=t._prev;for(;r!==t;)e.push(JSON.stringify(r,Pt)),r=r._prev;return"["+e.join(", ")+"]"}};function he(e){e._prev._next=e._next,e._next._prev=e._prev,delete e._next,delete e._prev}function Pt(e,t){if(e!=="_next"&&e!=="_prev")return t}var Ft=St,Rt=()=>1;function Dt(e,t){if(e.nodeCount()<=1)return[];let r=Vt(e,t||Rt);return Yt(r.graph,r.buckets,r.zeroIdx).flatMap(n=>e.outEdges(n.v,n.w)||[])}function Yt(e,t,r){var n;let i=[],o=t[t.length-1],s=t[0],l;for(;e.nodeCount();){for(;l=s.dequeue();)U(e,t,r,l);for(;l=o.dequeue();)U(e,t,r,l);if(e.nodeCount()){for(let a=t.length-2;a>0;--a)if(l=(n=t[a])==null?void 0:n.dequeue(),l){i=i.concat(U(e,t,r,l,!0)||[]);break}}}return i}function U(e,t,r,n,i){let o=[],s=i?o:void 0;return(e.inEdges(n.v)||[]).forEach(l=>{let a=e.edge(l),d=e.node(l.v);i&&o.push({v:l.v,w:l.w}),d.out-=a,Z(t,r,d)}),(e.outEdges(n.v)||[]).forEach(l=>{let a=e.edge(l),d=l.w,h=e.node(d);h.in-=a,Z(t,r,h)}),e.removeNode(n.v),s}function Vt(e,t){let r=new S,n=0,i=0;e.nodes().forEach(l=>{r.setNode(l,{v:l,in:0,out:0})}),e.edges().forEach(l=>{let a=r.edge(l.v,l.w)||0,d=t(l),h=a+d;r.setEdge(l.v,l.w,h);let u=r.node(l.v),c=r.node(l.w);i=Math.max(i,u.out+=d),n=Math.max(n,c.in+=d)});let o=At(i+n+3).map(()=>new Ft),s=n+1;return r.nodes().forEach(l=>{Z(o,s,r.node(l))}),{graph:r,buckets:o,zeroIdx:s}}function Z(e,t,r){var n,i,o;r.out?r.in?(o=e[r.out-r.in+t])==null||o.enqueue(r):(i=e[e.length-1])==null||i.enqueue(r):(n=e[0])==null||n.enqueue(r)}function At(e){let t=[];for(let r=0;r<e;r++)t.push(r);return t}function Bt(e,t){(e.graph().acyclicer==="greedy"?Dt(e,r(e)):zt(e,t??null)).forEach(n=>{let i=e.edge(n);e.removeEdge(n),i.forwardName=n.name,i.reversed=!0,e.setEdge(n.w,n.v,i,re("rev"))});function r(n){return i=>n.edge(i).weight}}function zt(e,t){let r=[],n={},i={};function o(a){Object.hasOwn(i,a)||(i[a]=!0,n[a]=!0,e.outEdges(a).forEach(d=>{Object.hasOwn(n,d.w)?r.push(d):o(d.w)}),delete n[a])}function s(a){var d;Object.hasOwn(i,a)||(i[a]=!0,n[a]=!0,(d=e.outEdges(a))==null||d.forEach(h=>{var u,c;Object.hasOwn(n,h.w)||((u=t.node(a))==null?void 0:u.rank)>((c=t.node(h.w))==null?void 0:c.rank)&&$t(e,h.w,h)?r.push(h):s(h.w)}),delete n[a])}let l=o;return t&&typeof t.node=="function"&&(l=s),e.sources().forEach(l),e.nodes().forEach(l),r}function Gt(e){e.edges().forEach(t=>{let r=e.edge(t);if(r.reversed){e.removeEdge(t);let n=r.forwardName;delete r.reversed,delete r.forwardName,e.setEdge(t.w,t.v,r,n)}})}function $t(e,t,r){let n=new Set;function i(o){var s;if(e.sources().includes(o))return!0;n.add(o);for(let l of(s=e.inEdges(o))!=null?s:[])if(!(l.v===r.v&&l.w===r.w)&&!n.has(l.v)&&i(l.v))return!0;return!1}return i(t)}function qt(e){e.graph().dummyChains=[],e.edges().forEach(t=>Xt(e,t))}function Xt(e,t){let r=t.v,n=e.node(r).rank,i=t.w,o=e.node(i).rank,s=t.name,l=e.edge(t),a=l.labelRank;if(o===n+1)return;e.removeEdge(t);let d,h,u;for(u=0,++n;n<o;++u,++n)l.points=[],h={width:0,height:0,edgeLabel:l,edgeObj:t,rank:n},d=Y(e,"edge",h,"_d"),n===a&&(h.width=l.width,h.height=l.height,h.dummy="edge-label",h.labelpos=l.labelpos),e.setEdge(r,d,{weight:l.weight},s),u===0&&e.graph().dummyChains.push(d),r=d;e.setEdge(r,i,{weight:l.weight},s)}function Jt(e){e.graph().dummyChains.forEach(t=>{let r=e.node(t),n=r.edgeLabel,i;for(e.setEdge(r.edgeObj,n);r.dummy;)i=e.successors(t)[0],e.removeNode(t),n.points.push({x:r.x,y:r.y}),r.dummy==="edge-label"&&(n.x=r.x,n.y=r.y,n.width=r.width,n.height=r.height),t=i,r=e.node(t)})}function ne(e){let t={};function r(n){let i=e.node(n);if(Object.hasOwn(t,n))return i.rank;t[n]=!0;let o=e.outEdges(n),s=o?o.map(a=>a==null?Number.POSITIVE_INFINITY:r(a.w)-e.edge(a).minlen):[],l=P(Math.min,s);return l===Number.POSITIVE_INFINITY&&(l=0),i.rank=l}e.sources().forEach(r)}function D(e,t){return e.node(t.w).rank-e.node(t.v).rank-e.edge(t).minlen}var Ye=Ut;function Ut(e){let t=new S({directed:!1}),r=e.nodes();if(r.length===0)throw new Error("Graph must have at least one node");let n=r[0],i=e.nodeCount();t.setNode(n,{});let o,s;for(;Wt(t,e)<i&&(o=Ht(t,e),!!o);)s=t.hasNode(o.v)?D(e,o):-D(e,o),Kt(t,e,s);return t}function Wt(e,t){function r(n){let i=t.nodeEdges(n);i&&i.forEach(o=>{let s=o.v,l=n===s?o.w:s;!e.hasNode(l)&&!D(t,o)&&(e.setNode(l,{}),e.setEdge(n,l,{}),r(l))})}return e.nodes().forEach(r),e.nodeCount()}function Ht(e,t){return t.edges().reduce((r,n)=>{let i=Number.POSITIVE_INFINITY;return e.hasNode(n.v)!==e.hasNode(n.w)&&(i=D(t,n)),i<r[0]?[i,n]:r},[Number.POSITIVE_INFINITY,null])[1]}function Kt(e,t,r){e.nodes().forEach(n=>t.node(n).rank+=r)}var{preorder:Qt,postorder:Zt}=te,er=F;F.initLowLimValues=oe;F.initCutValues=ie;F.calcCutValue=Ve;F.leaveEdge=Be;F.enterEdge=ze;F.exchangeEdges=Ge;function F(e){e=Ot(e),ne(e);let t=Ye(e);oe(t),ie(t,e);let r,n;for(;r=Be(t);)n=ze(t,e,r),Ge(t,e,r,n)}function ie(e,t){let r=Zt(e,e.nodes());r=r.slice(0,r.length-1),r.forEach(n=>tr(e,t,n))}function tr(e,t,r){let n=e.node(r).parent,i=e.edge(r,n);i.cutvalue=Ve(e,t,r)}function Ve(e,t,r){let n=e.node(r).parent,i=!0,o=t.edge(r,n),s=0;o||(i=!1,o=t.edge(n,r)),s=o.weight;let l=t.nodeEdges(r);return l&&l.forEach(a=>{let d=a.v===r,h=d?a.w:a.v;if(h!==n){let u=d===i,c=t.edge(a).weight;if(s+=u?c:-c,nr(e,r,h)){let f=e.edge(r,h).cutvalue;s+=u?-f:f}}}),s}function oe(e,t){arguments.length<2&&(t=e.nodes()[0]),Ae(e,{},1,t)}function Ae(e,t,r,n,i){let o=r,s=e.node(n);t[n]=!0;let l=e.neighbors(n);return l&&l.forEach(a=>{Object.hasOwn(t,a)||(r=Ae(e,t,r,a,n))}),s.low=o,s.lim=r++,i?s.parent=i:delete s.parent,r}function Be(e){return e.edges().find(t=>e.edge(t).cutvalue<0)}function ze(e,t,r){let n=r.v,i=r.w;t.hasEdge(n,i)||(n=r.w,i=r.v);let o=e.node(n),s=e.node(i),l=o,a=!1;return o.lim>s.lim&&(l=s,a=!0),t.edges().filter(d=>a===ue(e,e.node(d.v),l)&&a!==ue(e,e.node(d.w),l)).reduce((d,h)=>D(t,h)<D(t,d)?h:d)}function Ge(e,t,r,n){let i=r.v,o=r.w;e.removeEdge(i,o),e.setEdge(n.v,n.w,{}),oe(e),ie(e,t),rr(e,t)}function rr(e,t){let r=e.nodes().find(i=>!e.node(i).parent);if(!r)return;let n=Qt(e,[r]);n=n.slice(1),n.forEach(i=>{let o=e.node(i).parent,s=t.edge(i,o),l=!1;s||(s=t.edge(o,i),l=!0),t.node(i).rank=t.node(o).rank+(l?s.minlen:-s.minlen)})}function nr(e,t,r){return e.hasEdge(t,r)}function ue(e,t,r){return r.low<=t.lim&&t.lim<=r.lim}var ir=or;function or(e){let t=e.graph().ranker;if(typeof t=="function")return t(e);switch(t){case"network-simplex":ce(e);break;case"tight-tree":lr(e);break;case"longest-path":sr(e);break;case"none":break;default:ce(e)}}var sr=ne;function lr(e){ne(e),Ye(e)}function ce(e){er(e)}var dr=ar;function ar(e){let t=ur(e),r=e.graph();Array.isArray(r.dummyChains)&&r.dummyChains.forEach(n=>{let i=e.node(n),o=i.edgeObj,s=hr(e,t,o.v,o.w),l=s.path,a=s.lca,d=0,h=l[d],u=!0;for(;n!==o.w;){if(i=e.node(n),u){for(;(h=l[d])!==a&&e.node(h).maxRank<i.rank;)d++;h===a&&(u=!1)}if(!u){for(;d<l.length-1&&e.node(l[d+1]).minRank<=i.rank;)d++;h=l[d]}h!==void 0&&e.setParent(n,h),n=e.successors(n)[0]}})}function hr(e,t,r,n){let i=[],o=[],s=Math.min(t[r].low,t[n].low),l=Math.max(t[r].lim,t[n].lim),a;a=r;do a=e.parent(a),i.push(a);while(a&&(t[a].low>s||l>t[a].lim));let d=a,h=n;for(;(h=e.parent(h))!==d;)o.push(h);return{path:i.concat(o.reverse()),lca:d}}function ur(e){let t={},r=0;function n(i){let o=r;e.children(i).forEach(n),t[i]={low:o,lim:r++}}return e.children(X).forEach(n),t}function cr(e){let t=Y(e,"root",{},"_root"),r=fr(e),n=Object.values(r),i=P(Math.max,n)-1,o=2*i+1;e.graph().nestingRoot=t,e.edges().forEach(l=>e.edge(l).minlen*=o);let s=gr(e)+1;e.children(X).forEach(l=>{$e(e,t,o,s,i,r,l)}),e.graph().nodeRankFactor=o}function $e(e,t,r,n,i,o,s){var l;let a=e.children(s);if(!a.length){s!==t&&e.setEdge(t,s,{weight:0,minlen:r});return}let d=ae(e,"_bt"),h=ae(e,"_bb"),u=e.node(s);e.setParent(d,s),u.borderTop=d,e.setParent(h,s),u.borderBottom=h,a.forEach(c=>{var f;$e(e,t,r,n,i,o,c);let p=e.node(c),w=p.borderTop?p.borderTop:c,k=p.borderBottom?p.borderBottom:c,E=p.borderTop?n:2*n,g=w!==k?1:i-((f=o[s])!=null?f:0)+1;e.setEdge(d,w,{weight:E,minlen:g,nestingEdge:!0}),e.setEdge(k,h,{weight:E,minlen:g,nestingEdge:!0})}),e.parent(s)||e.setEdge(t,d,{weight:0,minlen:i+((l=o[s])!=null?l:0)})}function fr(e){let t={};function r(n,i){let o=e.children(n);o&&o.length&&o.forEach(s=>r(s,i+1)),t[n]=i}return e.children(X).forEach(n=>r(n,1)),t}function gr(e){return e.edges().reduce((t,r)=>t+e.edge(r).weight,0)}function pr(e){let t=e.graph();e.removeNode(t.nestingRoot),delete t.nestingRoot,e.edges().forEach(r=>{e.edge(r).nestingEdge&&e.removeEdge(r)})}var vr=mr;function mr(e){function t(r){let n=e.children(r),i=e.node(r);if(n.length&&n.forEach(t),i&&Object.hasOwn(i,"minRank")){i.borderLeft=[],i.borderRight=[];for(let o=i.minRank,s=i.maxRank+1;o<s;++o)fe(e,"borderLeft","_bl",r,i,o),fe(e,"borderRight","_br",r,i,o)}}e.children(X).forEach(t)}function fe(e,t,r,n,i,o){let s={width:0,height:0,rank:o,borderType:t},l=i[t][o-1],a=Y(e,"border",s,r);i[t][o]=a,e.setParent(a,n),l&&e.setEdge(l,a,{weight:1})}function wr(e){var t;let r=(t=e.graph().rankdir)==null?void 0:t.toLowerCase();(r==="lr"||r==="rl")&&qe(e)}function Er(e){var t;let r=(t=e.graph().rankdir)==null?void 0:t.toLowerCase();(r==="bt"||r==="rl")&&br(e),(r==="lr"||r==="rl")&&(yr(e),qe(e))}function qe(e){e.nodes().forEach(t=>ge(e.node(t))),e.edges().forEach(t=>ge(e.edge(t)))}function ge(e){let t=e.width;e.width=e.height,e.height=t}function br(e){e.nodes().forEach(t=>W(e.node(t))),e.edges().forEach(t=>{var r;let n=e.edge(t);(r=n.points)==null||r.forEach(W),Object.hasOwn(n,"y")&&W(n)})}function W(e){e.y=-e.y}function yr(e){e.nodes().forEach(t=>H(e.node(t))),e.edges().forEach(t=>{var r;let n=e.edge(t);(r=n.points)==null||r.forEach(H),Object.hasOwn(n,"x")&&H(n)})}function H(e){let t=e.x;e.x=e.y,e.y=t}function _r(e,t=null){let r={},n=e.nodes().filter(d=>!e.children(d).length),i=n.map(d=>e.node(d).rank),o=P(Math.max,i),s=A(o+1).map(()=>[]);function l(d){if(r[d])return;r[d]=!0;let h=e.node(d);s[h.rank].push(d);let u=e.successors(d);u&&[...u].sort((c,f)=>a(c,f)).forEach(l)}n.sort((d,h)=>e.node(d).rank-e.node(h).rank).forEach(l);function a(d,h){let u=e.node(d),c=e.node(h);return De(t,u,c)}return s}function kr(e,t){let r=0;for(let n=1;n<t.length;++n)r+=xr(e,t[n-1],t[n]);return r}function xr(e,t,r){let n=Tt(r,r.map((d,h)=>h)),i=t.flatMap(d=>{let h=e.outEdges(d);return h?h.map(u=>({pos:n[u.w],weight:e.edge(u).weight})).sort((u,c)=>u.pos-c.pos):[]}),o=1;for(;o<r.length;)o<<=1;let s=2*o-1;o-=1;let l=new Array(s).fill(0),a=0;return i.forEach(d=>{let h=d.pos+o;l[h]+=d.weight;let u=0;for(;h>0;)h%2&&(u+=l[h+1]),h=h-1>>1,l[h]+=d.weight;a+=d.weight*u}),a}function Or(e,t=[]){return t.map(r=>{let n=e.inEdges(r);if(!n||!n.length)return{v:r};{let i=n.reduce((o,s)=>{let l=e.edge(s),a=e.node(s.v);return{sum:o.sum+l.weight*a.order,weight:o.weight+l.weight}},{sum:0,weight:0});return{v:r,barycenter:i.sum/i.weight,weight:i.weight}}})}function Nr(e,t){let r={};e.forEach((i,o)=>{let s={indegree:0,in:[],out:[],vs:[i.v],i:o};i.barycenter!==void 0&&(s.barycenter=i.barycenter,s.weight=i.weight),r[i.v]=s}),t.edges().forEach(i=>{let o=r[i.v],s=r[i.w];o!==void 0&&s!==void 0&&(s.indegree++,o.out.push(s))});let n=Object.values(r).filter(i=>!i.indegree);return jr(n)}function jr(e){let t=[];function r(i){return o=>{o.merged||(o.barycenter===void 0||i.barycenter===void 0||o.barycenter>=i.barycenter)&&Ir(i,o)}}function n(i){return o=>{o.in.push(i),--o.indegree===0&&e.push(o)}}for(;e.length;){let i=e.pop();t.push(i),i.in.reverse().forEach(r(i)),i.out.forEach(n(i))}return t.filter(i=>!i.merged).map(i=>G(i,["vs","i","barycenter","weight"]))}function Ir(e,t){let r=0,n=0;e.weight&&(r+=e.barycenter*e.weight,n+=e.weight),t.weight&&(r+=t.barycenter*t.weight,n+=t.weight),e.vs=t.vs.concat(e.vs),e.barycenter=r/n,e.weight=n,e.i=Math.min(t.i,e.i),t.merged=!0}function Cr(e,t,r,n,i){let o={},s=null,l=null,a=i;typeof t=="boolean"?(a=t,o={}):t&&(o=t,s=r??null,l=n??null);let d=Ct(e,E=>Object.hasOwn(E,"barycenter")),h=d.lhs,u=d.rhs.sort((E,g)=>g.i-E.i),c=[],f=0,p=0,w=0;h.sort(Lr(l,s,!!a));for(let[E,g]of Object.entries(o)){let v=h.findIndex(m=>m.vs[0]===E);h.splice(v+1,0,g)}w=pe(c,u,w),h.forEach(E=>{w+=E.vs.length,c.push(E.vs),f+=E.barycenter*E.weight,p+=E.weight,w=pe(c,u,w)});let k={vs:c.flat(1)};return p&&(k.barycenter=f/p,k.weight=p),k}function pe(e,t,r){let n;for(;t.length&&(n=t[t.length-1]).i<=r;)t.pop(),e.push(n.vs),r++;return r}function Lr(e,t,r){return(n,i)=>{if(n.barycenter<i.barycenter)return-1;if(n.barycenter>i.barycenter)return 1;if(e&&(typeof n.vs[0]=="string"||typeof i.vs[0]=="string")){let o=e.node(n.vs[0]),s=e.node(i.vs[0]),l=De(t,o,s);if(l!==0)return l}return r?i.i-n.i:n.i-i.i}}function Xe(e,t,r,n,i){var o,s,l,a,d,h,u,c,f,p,w;let k=null,E=i;typeof n=="boolean"?(E=n,k=null):n!==void 0&&(k=n);let g=e.children(t),v=e.node(t),m=v?v.borderLeft:void 0,b=v?v.borderRight:void 0,N={};m&&(g=g.filter(O=>O!==m&&O!==b));let M=Or(e,g);M.forEach(O=>{if(e.children(O.v).length){let{result:I}=Xe(e,O.v,r,k,E);N[O.v]=I,Object.hasOwn(I,"barycenter")&&Tr(O,I)}});let y=Nr(M,r);Mr(y,N);let C={},T=!1;for(let O=0;O<y.length;O++)for(let I=O+1;I<y.length;I++)if(!(!y[O]||!y[I]||!((o=y[O])!=null&&o.barycenter)||!((s=y[I])!=null&&s.barycenter))&&((l=y[O])==null?void 0:l.barycenter)===y[I].barycenter){let x=(d=(a=y[O])==null?void 0:a.vs[0])!=null?d:"",_=(u=(h=y[I])==null?void 0:h.vs[0])!=null?u:"",L=e.node(x),R=e.node(_);if(L.dummy==="edge"&&R.dummy==="edge"&&((c=L.edgeObj)==null?void 0:c.v)===((f=R.edgeObj)==null?void 0:f.v)&&((p=L.edgeObj)==null?void 0:p.w)===((w=R.edgeObj)==null?void 0:w.w))if(L.edgeLabel.reversed){C[_]=y[O],y.splice(O,1),O--;break}else C[x]||(C[x]=y[I],y.splice(I,1),I--);else T=!0}let j=Cr(y,C,k,e,E);if(m&&b){j.vs=[m,j.vs,b].flat(1);let O=e.predecessors(m);if(O&&O.length){let I=e.node(O[0]),x=e.predecessors(b),_=e.node(x[0]);Object.hasOwn(j,"barycenter")||(j.barycenter=0,j.weight=0),j.barycenter=(j.barycenter*j.weight+I.order+_.order)/(j.weight+2),j.weight+=2}}return Object.defineProperty(j,"result",{value:j,enumerable:!1,configurable:!0,writable:!0}),Object.defineProperty(j,"usedBias",{value:T,enumerable:!1,configurable:!0,writable:!0}),j}function Mr(e,t){e.forEach(r=>{r.vs=r.vs.flatMap(n=>t[n]?t[n].vs:n)})}function Tr(e,t){e.barycenter!==void 0?(e.barycenter=(e.barycenter*e.weight+t.barycenter*t.weight)/(e.weight+t.weight),e.weight+=t.weight):(e.barycenter=t.barycenter,e.weight=t.weight)}function Sr(e,t,r,n){n||(n=e.nodes());let i=Pr(e),o=new S({compound:!0}).setGraph({root:i}).setDefaultNodeLabel(s=>e.node(s));return n.forEach(s=>{let l=e.node(s),a=e.parent(s);if(l.rank===t||l.minRank<=t&&t<=l.maxRank){o.setNode(s),o.setParent(s,a||i);let d=e[r](s);d&&d.forEach(h=>{let u=h.v===s?h.w:h.v,c=o.edge(u,s),f=c!==void 0?c.weight:0;o.setEdge(u,s,{weight:e.edge(h).weight+f})}),Object.hasOwn(l,"minRank")&&o.setNode(s,{borderLeft:l.borderLeft[t],borderRight:l.borderRight[t]})}}),o}function Pr(e){let t;for(;e.hasNode(t=re("_root")););return t}function Fr(e,t,r){let n={},i;r.forEach(o=>{let s=e.parent(o),l,a;for(;s;){if(l=e.parent(s),l?(a=n[l],n[l]=s):(a=i,i=s),a&&a!==s){t.setEdge(a,s);return}s=l}})}function Je(e,t={},r=null){if(typeof t.customOrder=="function"){t.customOrder(e,Je);return}let n=Re(e),i=ve(e,A(1,n+1),"inEdges"),o=ve(e,A(n-1,-1,-1),"outEdges"),s=_r(e,r);if(me(e,s),t.disableOptimalOrderHeuristic)return;let l=Number.POSITIVE_INFINITY,a,d=t.constraints||[];for(let h=0,u=0;u<4;++h,++u){Rr(h%2?i:o,h%4>=2,d,r),s=$(e);let c=kr(e,s);c<l?(u=0,a=Object.assign({},s),l=c):c===l&&(a=structuredClone(s))}me(e,a)}function ve(e,t,r){let n=new Map,i=(o,s)=>{n.has(o)||n.set(o,[]),n.get(o).push(s)};for(let o of e.nodes()){let s=e.node(o);if(typeof s.rank=="number"&&i(s.rank,o),typeof s.minRank=="number"&&typeof s.maxRank=="number")for(let l=s.minRank;l<=s.maxRank;l++)l!==s.rank&&i(l,o)}return t.map(function(o){return Sr(e,o,r,n.get(o)||[])})}function Rr(e,t,r,n){let i=!0,o=new S;e.forEach(function(s){r.forEach(h=>o.setEdge(h.left,h.right));let l=s.graph().root,{result:a,usedBias:d}=Xe(s,l,o,n,i);t&&d&&(i=!i),a.vs.forEach((h,u)=>s.node(h).order=u),Fr(s,o,a.vs)})}function me(e,t){Object.values(t).forEach(r=>r.forEach((n,i)=>e.node(n).order=i))}function Dr(e,t){let r={};function n(i,o){let s=0,l=0,a=i.length,d=o[o.length-1];return o.forEach((h,u)=>{let c=Vr(e,h),f=c?e.node(c).order:a;(c||h===d)&&(o.slice(l,u+1).forEach(p=>{let w=e.predecessors(p);w&&w.forEach(k=>{let E=e.node(k),g=E.order;(g<s||f<g)&&!(E.dummy&&e.node(p).dummy)&&Ue(r,k,p)})}),l=u+1,s=f)}),o}return t.length&&t.reduce(n),r}function Yr(e,t){let r={};function n(s){var l;return((l=e.node(s))==null?void 0:l.dummy)==="border"}if(!e.nodes().some(n))return r;function i(s,l,a,d,h){A(l,a).forEach(u=>{let c=s[u];if(c!==void 0&&e.node(c).dummy){let f=e.predecessors(c);f&&f.forEach(p=>{if(p===void 0)return;let w=e.node(p);w.dummy&&(w.order<d||w.order>h)&&Ue(r,p,c)})}})}function o(s,l){let a=-1,d=-1,h=0;return l.forEach((u,c)=>{if(n(u)){let f=e.predecessors(u);if(f&&f.length){let p=f[0];if(p===void 0)return;d=e.node(p).order,i(l,h,c,a,d),h=c,a=d}}i(l,h,l.length,d,s.length)}),l}return t.length&&t.reduce(o),r}function Vr(e,t){if(e.node(t).dummy){let r=e.predecessors(t);if(r)return r.find(n=>e.node(n).dummy)}}function Ue(e,t,r){if(t>r){let i=t;t=r,r=i}let n=e[t];n||(e[t]=n={}),n[r]=!0}function Ar(e,t,r){if(t>r){let i=t;t=r,r=i}let n=e[t];return n!==void 0&&Object.hasOwn(n,r)}function Br(e,t,r,n,i){let o={},s={},l={};return t.forEach(a=>{a.forEach((d,h)=>{o[d]=d,s[d]=d,l[d]=h})}),t.forEach(a=>{let d=-1,h=-1,u=!1,c=a,f=a.findIndex(p=>i?.includes(p)||we(p,e,i));f>0&&(c=[a[f],...a.slice(0,f),...a.slice(f+1)],u=!0),c.forEach(p=>{var w;let k=n(p);if(k&&k.length){i!=null&&i.includes(p)&&(k=k.filter(v=>we(v,e,i)));let E=k.sort((v,m)=>{let b=l[v],N=l[m];return(b!==void 0?b:0)-(N!==void 0?N:0)}),g=(E.length-1)/2;for(let v=Math.floor(g),m=Math.ceil(g);v<=m;++v){let b=E[v];if(b===void 0)continue;let N=l[b];if(N!==void 0&&s[p]===p&&d<N&&l[b]!==h&&!Ar(r,p,b)){let M=o[b];M!==void 0&&(s[b]=p,s[p]=o[p]=M,d=N,u&&(d=-1,h=(w=l[b])!=null?w:-1,u=!1))}}}})}),{root:o,align:s}}function zr(e,t,r,n,i=!1){let o={},s=Gr(e,t,r,i),l=i?"borderLeft":"borderRight";function a(f,p){let w=s.nodes().slice(),k={},E=w.pop();for(;E;){if(k[E])f(E);else{k[E]=!0,w.push(E);for(let g of p(E))w.push(g)}E=w.pop()}}function d(f){let p=s.inEdges(f);p?o[f]=p.reduce((w,k)=>{var E;let g=(E=o[k.v])!=null?E:0,v=s.edge(k);return Math.max(w,g+(v!==void 0?v:0))},0):o[f]=0}function h(f){let p=s.outEdges(f),w=Number.POSITIVE_INFINITY;p&&(w=p.reduce((E,g)=>{let v=o[g.w],m=s.edge(g);return Math.min(E,(v!==void 0?v:0)-(m!==void 0?m:0))},Number.POSITIVE_INFINITY));let k=e.node(f);w!==Number.POSITIVE_INFINITY&&k.borderType!==l&&(o[f]=Math.max(o[f]!==void 0?o[f]:0,w))}function u(f){return s.predecessors(f)||[]}function c(f){return s.successors(f)||[]}return a(d,u),a(h,c),Object.keys(n).forEach(f=>{var p;let w=r[f];w!==void 0&&(o[f]=(p=o[w])!=null?p:0)}),o}function Gr(e,t,r,n){let i=new S,o=e.graph(),s=Ur(o.nodesep,o.edgesep,n);return t.forEach(l=>{let a;l.forEach(d=>{let h=r[d];if(h!==void 0){if(i.setNode(h),a!==void 0){let u=r[a];if(u!==void 0){let c=i.edge(u,h);i.setEdge(u,h,Math.max(s(e,d,a),c||0))}}a=d}})}),i}function $r(e,t){return Object.values(t).reduce((r,n)=>{let i=Number.NEGATIVE_INFINITY,o=Number.POSITIVE_INFINITY;Object.entries(n).forEach(([l,a])=>{let d=Wr(e,l)/2;i=Math.max(a+d,i),o=Math.min(a-d,o)});let s=i-o;return s<r[0]&&(r=[s,n]),r},[Number.POSITIVE_INFINITY,null])[1]}function qr(e,t){let r=Object.values(t),n=P(Math.min,r),i=P(Math.max,r);["u","d"].forEach(o=>{["l","r"].forEach(s=>{let l=o+s,a=e[l];if(!a||a===t)return;let d=Object.values(a),h=n-P(Math.min,d);s!=="l"&&(h=i-P(Math.max,d)),h&&(e[l]=q(a,u=>u+h))})})}function Xr(e,t=void 0){let r=e.ul;return r?q(r,(n,i)=>{var o,s;if(t){let a=t.toLowerCase(),d=e[a];if(d&&d[i]!==void 0)return d[i]}let l=Object.values(e).map(a=>{let d=a[i];return d!==void 0?d:0}).sort((a,d)=>a-d);return(((o=l[1])!=null?o:0)+((s=l[2])!=null?s:0))/2}):{}}function Jr(e,t){let r=$(e),n=Object.assign(Dr(e,r),Yr(e,r)),i={},o;["u","d"].forEach(l=>{o=l==="u"?r:Object.values(r).reverse(),["l","r"].forEach(a=>{a==="r"&&(o=o.map(u=>Object.values(u).reverse()));let d=Br(e,o,n,u=>(l==="u"?e.predecessors(u):e.successors(u))||[],t),h=zr(e,o,d.root,d.align,a==="r");a==="r"&&(h=q(h,u=>-u)),i[l+a]=h})});let s=$r(e,i);return qr(i,s),Xr(i,e.graph().align)}function Ur(e,t,r){return(n,i,o)=>{let s=n.node(i),l=n.node(o),a=0,d;if(a+=s.width/2,Object.hasOwn(s,"labelpos"))switch(s.labelpos.toLowerCase()){case"l":d=-s.width/2;break;case"r":d=s.width/2;break}if(d&&(a+=r?d:-d),d=void 0,a+=(s.dummy?t:e)/2,a+=(l.dummy?t:e)/2,a+=l.width/2,Object.hasOwn(l,"labelpos"))switch(l.labelpos.toLowerCase()){case"l":d=l.width/2;break;case"r":d=-l.width/2;break}return d&&(a+=r?d:-d),a}}function Wr(e,t){return e.node(t).width}function we(e,t,r){var n;if(!r)return!1;let i=(n=t.node(e))==null?void 0:n.edgeObj;if(!i||t.node(e).edgeLabel.reversed)return!1;let o=r.indexOf(i?.v),s=r.indexOf(i?.w);return o!==-1&&s!==-1&&o===(s+1)%r.length||o===(s-1)%r.length}function Hr(e,t){e=Pe(e),Kr(e),Object.entries(Jr(e,t)).forEach(([r,n])=>e.node(r).x=n)}function Kr(e){let t=$(e),r=e.graph(),n=r.ranksep,i=r.rankalign,o=0;t.forEach(s=>{let l=s.reduce((a,d)=>{var h;let u=(h=e.node(d).height)!=null?h:0;return a>u?a:u},0);s.forEach(a=>{let d=e.node(a);i==="top"?d.y=o+d.height/2:i==="bottom"?d.y=o+l-d.height/2:d.y=o+l/2}),o+=l+n})}var Ee=new WeakMap;function We(e,t={}){return He(e,Lt,t),e}function be(e,t,r){let n=t;for(;n!==void 0;){let i=e.parent(n);if(i===r)return n;n=i}}function He(e,t,r){var n;let i=e.nodes().filter(g=>e.children(g).length),o={};i.forEach(g=>{let v=e.node(g);if(v&&v.rankdir){let m=new S({multigraph:!0,compound:!0});m.setGraph({rankdir:v.rankdir});let b=e.children(g);b.forEach(x=>{let _={...e.node(x)};m.setNode(x,_);let L=e.parent(x);L&&L!==g&&b.includes(L)&&m.setParent(x,L)});let N=new Set;e.edges().forEach(x=>{let _=be(e,x.v,g),L=be(e,x.w,g);if(_===x.v&&L===x.w)m.setEdge(x,{...e.edge(x)});else if(_&&L&&_!==L){let R=`${_}\\0${L}`;N.has(R)||(N.add(R),m.setEdge(_,L,{...e.edge(x)}))}}),He(m,t,r);let M=Oe(m);_e(M,t,r,null),ke(m,M);let y=1/0,C=1/0,T=-1/0,j=-1/0;m.nodes().forEach(x=>{if(x===g)return;let _=m.node(x);_&&typeof _.x=="number"&&typeof _.y=="number"&&typeof _.width=="number"&&typeof _.height=="number"&&(y=Math.min(y,_.x-_.width/2),T=Math.max(T,_.x+_.width/2),C=Math.min(C,_.y-_.height/2),j=Math.max(j,_.y+_.height/2))}),(!isFinite(y)||!isFinite(C)||!isFinite(T)||!isFinite(j))&&(y=C=0,T=j=0);let O=T-y,I=j-C;o[g]={minX:y,minY:C,maxX:T,maxY:j,width:O,height:I,offsetX:y,offsetY:C},v._dagreClusterSubgraph=m}});let s=[],l=g=>{let v=[],m=(e.children(g)||[]).filter(b=>b!==g);for(;m.length>0;){let b=m.shift();v.push(b),(e.children(b)||[]).filter(N=>N!==b).forEach(N=>m.push(N))}return v},a=new Map;i.forEach(g=>{let v=e.node(g);v&&v.rankdir&&o[g]&&a.set(g,(e.children(g)||[]).filter(m=>m!==g))});let d=new Set([...a.values()].flat()),h=new Map;a.forEach((g,v)=>{d.has(v)||h.set(v,l(v))});let u=new Set([...h.values()].flat()),c=g=>{for(let[v,m]of h)if(m.includes(g))return v;return g},f=[];e.edges().forEach(g=>{(u.has(g.v)||u.has(g.w))&&f.push({edge:g,label:e.edge(g)})});let p=new Map;u.forEach(g=>{let v=e.parent(g);p.set(g,typeof v=="string"?v:void 0)}),h.forEach((g,v)=>{let m=e.node(v),b=[];g.forEach(y=>{let C=e.node(y);C&&(b.push({id:y,node:C,parent:p.get(y)}),e.removeNode(y))});let N=f.filter(({edge:y})=>g.includes(y.v)||g.includes(y.w)),M=o[v];m&&(s.push({clusterId:v,subgraph:m._dagreClusterSubgraph,bounds:M,children:g,removedNodes:b,removedEdges:N}),m.width=M.width,m.height=M.height)});let w=new Set;f.forEach(({edge:g,label:v})=>{let m=c(g.v),b=c(g.w);if(m!==b&&e.hasNode(m)&&e.hasNode(b)){let N=`${m}\\0${b}`;w.has(N)||(w.add(N),e.setEdge(m,b,{...v,width:0,height:0}))}});let k=Oe(e),E=_e(k,t,r,(n=Ee.get(e))!=null?n:null);Ee.set(e,E),ke(e,k),w.forEach(g=>{let v=g.indexOf("\\0"),m=g.slice(0,v),b=g.slice(v+1);e.hasEdge(m,b)&&e.removeEdge(m,b)}),s.forEach(({clusterId:g,subgraph:v,bounds:m,removedNodes:b,removedEdges:N})=>{var M,y;let C=e.node(g),T=(M=C?.x)!=null?M:0,j=(y=C?.y)!=null?y:0,O=(m.minX+m.maxX)/2,I=(m.minY+m.maxY)/2;b.forEach(({id:x,node:_,parent:L})=>{e.setNode(x,_),L!==void 0&&e.setParent(x,L)}),N.forEach(({edge:x,label:_})=>{e.setEdge(x,_)}),v.nodes().forEach(x=>{if(x===g)return;let _=v.node(x),L=e.node(x);L&&_&&typeof _.x=="number"&&typeof _.y=="number"&&(L.x=T+(_.x-O),L.y=j+(_.y-I))}),ye(e,v,T-O,j-I),delete C._dagreClusterSubgraph}),i.forEach(g=>{var v,m;let b=e.node(g),N=o[g];if(b&&b.rankdir&&b._dagreClusterSubgraph&&N){let M=b._dagreClusterSubgraph,y=(v=b.x)!=null?v:0,C=(m=b.y)!=null?m:0,T=(N.minX+N.maxX)/2,j=(N.minY+N.maxY)/2;M.nodes().forEach(O=>{if(O===g)return;let I=M.node(O),x=e.node(O);if(x&&I&&typeof I.x=="number"&&typeof I.y=="number"){let _=I.x-T,L=I.y-j;x.x=y+_,x.y=C+L}}),ye(e,M,y-T,C-j),delete b._dagreClusterSubgraph}})}function ye(e,t,r,n){t.edges().forEach(i=>{if(!e.hasEdge(i))return;let o=t.edge(i),s=e.edge(i);s.points=o.points.map(l=>({x:l.x+r,y:l.y+n})),Object.hasOwn(o,"x")&&(s.x=o.x+r,s.y=o.y+n)})}function _e(e,t,r,n=null){var i,o;let s=r?.useDynamic!==!1,l=s&&(i=n?.graph)!=null?i:null,a=s&&(o=n?.rawNodes)!=null?o:null;t("    makeSpaceForEdgeLabels",()=>sn(e)),t("    removeSelfEdges",()=>pn(e)),t("    acyclic",()=>Bt(e,l)),t("    nestingGraph.run",()=>cr(e)),t("    rank",()=>ir(Pe(e))),t("    injectEdgeLabelProxies",()=>ln(e)),t("    removeEmptyRanks",()=>jt(e)),t("    nestingGraph.cleanup",()=>pr(e)),t("    normalizeRanks",()=>Nt(e)),t("    assignRankMinMax",()=>dn(e)),t("    removeEdgeLabelProxies",()=>an(e)),t("    normalize.run",()=>qt(e)),t("    parentDummyChains",()=>dr(e)),t("    addBorderSegments",()=>vr(e)),t("    order",()=>Je(e,r,a)),t("    insertSelfEdges",()=>vn(e)),t("    adjustCoordinateSystem",()=>wr(e)),t("    position",()=>Hr(e,r.corePath)),t("    positionSelfEdges",()=>mn(e));let d=JSON.parse(JSON.stringify(e._nodes));return t("    removeBorderNodes",()=>gn(e)),t("    normalize.undo",()=>Jt(e)),t("    fixupEdgeLabelCoords",()=>cn(e)),t("    undoCoordinateSystem",()=>Er(e)),t("    translateGraph",()=>hn(e)),t("    assignNodeIntersects",()=>un(e)),t("    reversePoints",()=>fn(e)),t("    acyclic.undo",()=>Gt(e)),{graph:e,rawNodes:d}}function ke(e,t){e.nodes().forEach(r=>{let n=e.node(r),i=t.node(r);n&&(n.x=i.x,n.y=i.y,n.order=i.order,n.rank=i.rank,t.children(r).length&&(n.width=i.width,n.height=i.height))}),e.edges().forEach(r=>{let n=e.edge(r),i=t.edge(r);n.points=i.points,Object.hasOwn(i,"x")&&(n.x=i.x,n.y=i.y)}),e.graph().width=t.graph().width,e.graph().height=t.graph().height}var Qr=["nodesep","edgesep","ranksep","marginx","marginy"],Zr={ranksep:50,edgesep:20,nodesep:50,rankdir:"TB",rankalign:"center"},en=["acyclicer","ranker","rankdir","align","rankalign"],tn=["width","height","rank"],xe={width:0,height:0},rn=["minlen","weight","width","height","labeloffset"],nn={minlen:1,weight:1,width:0,height:0,labeloffset:10,labelpos:"r"},on=["labelpos"];function Oe(e){let t=new S({multigraph:!0,compound:!0}),r=Q(e.graph());return t.setGraph(Object.assign({},Zr,K(r,Qr),G(r,en))),e.nodes().forEach(n=>{let i=Q(e.node(n)),o=K(i,tn);Object.keys(xe).forEach(l=>{o[l]===void 0&&(o[l]=xe[l])}),t.setNode(n,o);let s=e.parent(n);s!==void 0&&t.setParent(n,s)}),e.edges().forEach(n=>{let i=Q(e.edge(n));t.setEdge(n,Object.assign({},nn,K(i,rn),G(i,on)))}),t}function sn(e){let t=e.graph();t.ranksep/=2,e.edges().forEach(r=>{var n;let i=e.edge(r);i.minlen*=2,((n=i.labelpos)!=null?n:"r").toLowerCase()!=="c"&&(t.rankdir==="TB"||t.rankdir==="BT"?i.width+=i.labeloffset:i.height+=i.labeloffset)})}function ln(e){e.edges().forEach(t=>{let r=e.edge(t);if(r.width&&r.height){let n=e.node(t.v),i={rank:(e.node(t.w).rank-n.rank)/2+n.rank,e:t};Y(e,"edge-proxy",i,"_ep")}})}function dn(e){let t=0;e.nodes().forEach(r=>{let n=e.node(r);n.borderTop&&(n.minRank=e.node(n.borderTop).rank,n.maxRank=e.node(n.borderBottom).rank,t=Math.max(t,n.maxRank))}),e.graph().maxRank=t}function an(e){e.nodes().forEach(t=>{let r=e.node(t);if(r.dummy==="edge-proxy"){let n=r;e.edge(n.e).labelRank=r.rank,e.removeNode(t)}})}function hn(e){let t=Number.POSITIVE_INFINITY,r=0,n=Number.POSITIVE_INFINITY,i=0,o=e.graph(),s=o.marginx||0,l=o.marginy||0;function a(d){let h=d.x,u=d.y,c=d.width,f=d.height;t=Math.min(t,h-c/2),r=Math.max(r,h+c/2),n=Math.min(n,u-f/2),i=Math.max(i,u+f/2)}e.nodes().forEach(d=>a(e.node(d))),e.edges().forEach(d=>{let h=e.edge(d);Object.hasOwn(h,"x")&&a(h)}),t-=s,n-=l,e.nodes().forEach(d=>{let h=e.node(d);h.x-=t,h.y-=n}),e.edges().forEach(d=>{let h=e.edge(d);h.points.forEach(u=>{u.x-=t,u.y-=n}),Object.hasOwn(h,"x")&&(h.x-=t),Object.hasOwn(h,"y")&&(h.y-=n)}),o.width=r-t+s,o.height=i-n+l}function un(e){e.edges().forEach(t=>{if(t.v===t.w)return;let r=e.edge(t),n=e.node(t.v),i=e.node(t.w),o,s;r.points?(o=r.points[0],s=r.points[r.points.length-1]):(r.points=[],o=i,s=n),r.points.unshift(de(n,o)),r.points.push(de(i,s))})}function cn(e){e.edges().forEach(t=>{let r=e.edge(t);if(Object.hasOwn(r,"x"))switch((r.labelpos==="l"||r.labelpos==="r")&&(r.width-=r.labeloffset),r.labelpos){case"l":r.x-=r.width/2+r.labeloffset;break;case"r":r.x+=r.width/2+r.labeloffset;break}})}function fn(e){e.edges().forEach(t=>{let r=e.edge(t);r.reversed&&r.points.reverse()})}function gn(e){e.nodes().forEach(t=>{if(e.children(t).length){let r=e.node(t),n=e.node(r.borderTop),i=e.node(r.borderBottom),o=e.node(r.borderLeft[r.borderLeft.length-1]),s=e.node(r.borderRight[r.borderRight.length-1]);r.width=Math.abs(s.x-o.x),r.height=Math.abs(i.y-n.y),r.x=o.x+r.width/2,r.y=n.y+r.height/2}}),e.nodes().forEach(t=>{e.node(t).dummy==="border"&&e.removeNode(t)})}function pn(e){e.edges().forEach(t=>{if(t.v===t.w){let r=e.node(t.v);r.selfEdges||(r.selfEdges=[]),r.selfEdges.push({e:t,label:e.edge(t)}),e.removeEdge(t)}})}function vn(e){$(e).forEach(t=>{let r=0;t.forEach((n,i)=>{let o=e.node(n);typeof o.rank!="number"&&(o.rank=0),o.order=i+r,(o.selfEdges||[]).forEach(s=>{Y(e,"selfedge",{width:s.label.width,height:s.label.height,rank:o.rank,order:i+ ++r,e:s.e,edgeLabel:s.label},"_se"),(!Array.isArray(s.label.points)||s.label.points.length!==7)&&(s.label.points=[{x:0,y:-10},{x:0,y:-10},{x:0,y:0},{x:0,y:10},{x:0,y:10},{x:0,y:0},{x:0,y:0}])}),delete o.selfEdges})})}function mn(e){e.nodes().forEach(t=>{let r=e.node(t),n=i=>typeof i=="number"&&isFinite(i);if(r.dummy==="selfedge"){let i=r,o=e.node(i.e.v),s=n(o?.x)?o.x:0,l=n(o?.y)?o.y:0,a=n(o?.width)?o.width:0,d=n(o?.height)?o.height:0,h=n(r.x)?r.x:s,u=n(r.y)?r.y:l,c=a/2,f=d/2;i.edgeLabel.points=[{x:h+c,y:u-f},{x:h+c,y:u-f},{x:h,y:u},{x:h-c,y:u+f},{x:h-c,y:u+f},{x:h,y:u},{x:h,y:u}],i.edgeLabel.x=h,i.edgeLabel.y=u,e.setEdge(i.e,i.edgeLabel),e.removeNode(t)}else r&&Array.isArray(r.selfEdges)&&r.selfEdges.forEach(i=>{if(!Array.isArray(i.label.points)||i.label.points.length!==7){let o=n(r.x)?r.x:0,s=n(r.y)?r.y:0,l=n(r.width)?r.width:0,a=n(r.height)?r.height:0,d=l/2,h=a/2;i.label.points=[{x:o+d,y:s-h},{x:o+d,y:s-h},{x:o,y:s},{x:o-d,y:s+h},{x:o-d,y:s+h},{x:o,y:s},{x:o,y:s}]}})})}function K(e,t){return q(G(e,t),Number)}function Q(e){let t={};return e&&Object.entries(e).forEach(([r,n])=>{typeof r=="string"&&(r=r.toLowerCase()),t[r]=n}),t}var wn=300;onmessage=({data:{key:e,nodes:t,edges:r,direction:n}})=>{let i=new S({compound:t.some(l=>l.parent),multigraph:!1});i.setGraph({rankdir:n,ranker:t.length>wn?"longest-path":"tight-tree",nodesep:28,ranksep:76,edgesep:14,marginx:24,marginy:24}),i.setDefaultEdgeLabel(()=>({}));for(let{id:l,width:a,height:d}of t)i.setNode(l,{width:a,height:d});for(let{id:l,parent:a}of t)a&&i.setParent(l,a);for(let[l,a]of r)l!==a&&i.setEdge(l,a);We(i);let{width:o,height:s}=i.graph();postMessage({key:e,width:o,height:s,nodes:t.map(({id:l})=>{let{x:a,y:d,width:h,height:u}=i.node(l);return{id:l,x:a,y:d,width:h,height:u}}),edges:r.map(([l,a])=>i.edge(l,a)?.points??[])})};})();\n';var Or=new Map,os=new Map,Pl;function as(t,e,n){let r=JSON.stringify([n,t.map(({id:s,width:i,height:o,parent:l})=>[s,i,o,l??0]),e]);return Or.has(r)||(Or.set(r,new Promise((s,i)=>{os.set(r,{resolve:s,reject:i}),Pl??=ku(),Pl.postMessage({key:r,nodes:t,edges:e,direction:n})})),Or.size>12&&Or.delete(Or.keys().next().value)),Or.get(r)}function ku(){let t=new Worker(URL.createObjectURL(new Blob([Ll],{type:"text/javascript"})));return t.onmessage=({data:e})=>{os.get(e.key)?.resolve(e),os.delete(e.key)},t.onerror=e=>{for(let{reject:n}of os.values())n(new Error(e.message||"the layout failed"));os.clear()},t}function _u(t,e){if(t.length<2)return"";let n=e!=="LR",r=t.map(h=>n?h.y:h.x),s=t.map(h=>n?h.x:h.y),i=t.length-1,o=t.map((h,m)=>{if(m===0||m===i)return 0;let[u,f]=[(s[m]-s[m-1])/(r[m]-r[m-1]||1),(s[m+1]-s[m])/(r[m+1]-r[m]||1)];return u*f<=0?0:2*u*f/(u+f)}),l=(h,m)=>n?`${Ar(m)} ${Ar(h)}`:`${Ar(h)} ${Ar(m)}`,c=`M${l(r[0],s[0])}`;for(let h=1;h<=i;h++){let m=(r[h]-r[h-1])*(i===1?.5:.4);c+=`C${l(r[h-1]+m,s[h-1]+o[h-1]*m)} ${l(r[h]-m,s[h]-o[h]*m)} ${l(r[h],s[h])}`}return c}var Ar=t=>Math.round(t*10)/10;function Eu(t,e,n,r){let s=new Map(e.map(m=>[m.id,m])),i=r==="LR",o=m=>{let u=s.get(m);return i?u.y:u.x},l=(m,u)=>{let f=new Map;t.forEach((y,k)=>{f.has(y[m])||f.set(y[m],[]),f.get(y[m]).push(k)});let v=new Map;for(let[y,k]of f){let{width:S,height:A}=s.get(y),_=(i?A:S)-36,N=Math.min(26,_/Math.max(k.length,1));k.sort((M,P)=>o(t[M][u])-o(t[P][u])).forEach((M,P)=>v.set(M,(P-(k.length-1)/2)*N))}return v},[c,h]=[l("from","to"),l("to","from")];return t.map((m,u)=>{if(m.from===m.to)return[];let[f,v]=[s.get(m.from),s.get(m.to)],y=i?{x:f.x+f.width/2,y:f.y+c.get(u)}:{x:f.x+c.get(u),y:f.y+f.height/2},k=i?{x:v.x-v.width/2-3,y:v.y+h.get(u)}:{x:v.x+h.get(u),y:v.y-v.height/2-3},S=n[u].slice(1,-1).filter(A=>i?A.x>y.x+56&&A.x<k.x-56:A.y>y.y+40&&A.y<k.y-40);return[y,...n[u].length<5?[]:S,k]})}var fo=56;function Rl(t,e,n){let r=u=>Math.min(e/(t.width/u+60),n/(u*(t.height+fo))),s=[1,2,3,4,5,6,7,8].reduce((u,f)=>r(f)>r(u)*1.15?f:u,1);if(s===1||r(1)>.6)return t;let i=[...new Set(t.nodes.map(u=>Math.round(u.x)))].sort((u,f)=>u-f),o=t.width/s,l=[];for(let u of i){let f=t.nodes.filter(S=>Math.round(S.x)===u),[v,y]=[Math.min(...f.map(S=>S.x-S.width/2)),Math.max(...f.map(S=>S.x+S.width/2))],k=l.at(-1);!k||y-k.from>o+40?l.push({from:v,to:y}):k.to=y}let c=u=>Math.max(l.findLastIndex(f=>u>=f.from),0),h=t.height+fo,m=(u,f)=>({...f,x:f.x-l[u].from+40,y:f.y+u*h});return{...t,folds:!0,width:Math.max(...l.map(u=>u.to-u.from))+80,height:l.length*h,nodes:t.nodes.map(u=>({...m(c(u.x),u),band:c(u.x)})),edges:t.edges.map(u=>u.map(f=>m(c(u[0].x),f)))}}var En=(t,e)=>`${Ar(t)} ${Ar(e)}`;function Ks(t,e,n){let r=new Map(e.nodes.map(i=>[i.id,i])),s=Eu(t,e.nodes,e.edges,n);return t.map(({from:i,to:o},l)=>{let[c,h]=[r.get(i),r.get(o)];if(!e.folds||c.band===h.band||!s[l].length)return _u(s[l],n);let[m,u]=[s[l][0],s[l].at(-1)],f=e.height*(h.band/(Math.max(...e.nodes.map(N=>N.band))+1))-fo/2+l%5*3,v=Math.min(26,Math.abs(f-m.y)/2),[y,k,S,A]=[m.x,m.x+v,u.x,u.x-v];return`${`M${En(y,m.y)}C${En(k,m.y)} ${En(k,f)} ${En(y,f)}`}L${En(S,f)}C${En(A,f)} ${En(A,u.y)} ${En(S,u.y)}`})}var Su=.8,Mu=60,mo=class extends Js{static properties={graph:{attribute:!1},rows:{attribute:!1},selected:{attribute:!1},focused:{attribute:!1},overlay:{attribute:!1},url:{attribute:!1},at:{attribute:!1},placed:{state:!0},closed:{state:!0},failed:{state:!0}};createRenderRoot(){return this}constructor(){super(),this.closed=new Set}connectedCallback(){super.connectedCallback(),this.resizing=new ResizeObserver(()=>{this.direction!==this.usedDirection?this.arrange():this.moved?this.apply():this.fit()}),this.resizing.observe(this)}disconnectedCallback(){super.disconnectedCallback(),this.resizing.disconnect()}get direction(){return this.clientWidth&&this.clientWidth<560?"TB":"LR"}willUpdate(e){e.has("graph")&&this.graph&&!e.get("graph")&&this.graph.nodes.length>150&&(this.closed=new Set(this.graph.groups?.map(n=>n.import)??[])),["graph","rows","closed","overlay"].some(n=>e.has(n))&&this.graph&&this.arrange()}updated(e){e.has("placed")&&this.placed&&(this.moved?this.apply():this.fit()),(e.has("selected")||e.has("placed"))&&this.reveal()}async arrange(){if(!this.graph||!this.clientWidth)return;let e=Il(this.graph,{rows:this.rows,closed:this.closed,overlay:this.overlay,widthOf:Ou}),n=this.usedDirection=this.direction,r=new Set(e.groups),s=[...e.groups.map(o=>({id:`in:${o}`,width:0,height:0,parent:Tu(o,r)})),...e.boxes.map(({id:o,width:l,height:c,parent:h})=>({id:o,width:l,height:c,parent:r.has(h)?`in:${h}`:null}))],i=this.asked=Symbol("layout");try{let o=e.edges.map(({from:f,to:v})=>[f,v]),[l,c]=[this.clientWidth,this.clientHeight],h=({width:f,height:v})=>Math.min(l/f,c/v),m=await as(s,o,n),u=n==="LR"&&!e.groups.length?Rl(m,l,c):m;if(n==="LR"&&h(u)<Su&&s.length<Mu&&(m=await as(s,o,"TB"),h(m)>h(u)*(u.folds?.8:1.2)&&([u,n]=[m,"TB"])),i!==this.asked)return;this.placed={model:e,result:u,direction:n,spots:new Map(u.nodes.map(f=>[f.id,f])),paths:Ks(e.edges,u,n)},this.failed=null}catch(o){this.failed=o}}render(){if(this.failed)return a`<div class="problem" role="alert">The graph cannot be drawn: ${this.failed.message}</div>`;let{placed:e}=this;return this.marked=this.focus(),a`<div
class="graph-view"
@pointerdown=${this.down}
@pointermove=${this.move}
@pointerup=${this.up}
@pointercancel=${this.up}
@wheel=${this.wheel}
@click=${{handleEvent:n=>this.click(n),capture:!0}}
>
${e?a`<div
class="stage"
style=${We({width:`${e.result.width}px`,height:`${e.result.height}px`})}
>
${this.groups(e)}${this.lines(e)}
<ul class="boxes" aria-label="Jobs">
${jl(e.model.boxes,n=>n.id,n=>this.box(n,e))}
</ul>
</div>`:a`<p class="laying-out" role="status">Drawing ${Z(this.graph?.nodes.length??0,"job")} …</p>`}
</div>
<div class="zoom" role="group" aria-label="Zoom">
<button type="button" @click=${()=>this.zoom(1.25)} aria-label="Zoom in" title="Zoom in (+)">
${le.plus}
</button>
<button type="button" @click=${()=>this.zoom(.8)} aria-label="Zoom out" title="Zoom out (−)">
${le.minus}
</button>
<button
type="button"
@click=${()=>{this.moved=!1,this.fit({whole:!0})}}
aria-label="Show everything"
title="Show everything (0)"
>
${le.fit}
</button>
</div>`}groups({model:e,spots:n}){return e.groups.map(r=>{let s=e.boxes.filter(f=>f.parent===r||f.parent?.startsWith(`${r}/`));if(!s.length)return g;let i=s.map(f=>[n.get(f.id),f.parent===r?0:1]),o=Math.min(...i.map(([{x:f,width:v},y])=>f-v/2-14-y*8)),l=Math.max(...i.map(([{x:f,width:v},y])=>f+v/2+14+y*8)),c=Math.min(...i.map(([{y:f,height:v},y])=>f-v/2-26-y*20)),h=Math.max(...i.map(([{y:f,height:v},y])=>f+v/2+14+y*8)),m={transform:`translate(${o}px, ${c}px)`,width:`${l-o}px`,height:`${h-c}px`};return a`<button type="button" class="import" title="Close ${r} (i)" @click=${()=>{this.closed=new Set([...this.closed,r])}} style=${We(m)}>
<span>${r}</span>
</button>`})}lines({model:e,result:n,paths:r}){let s=this.marked,i=e.edges.map((o,l)=>({edge:o,path:r[l],kind:s.edge(o)})).sort((o,l)=>["","dirty","focus"].indexOf(o.kind)-["","dirty","focus"].indexOf(l.kind));return kt`<svg class="lines" width=${n.width} height=${n.height} aria-hidden="true">
<defs>${["","dirty","focus"].map(o=>kt`<marker id=${`arrow${o}`} viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7"
orient="auto-start-reverse"><path class=${`arrow ${o}`} d="M1 1 7 4 1 7"></path></marker>`)}</defs>
${i.map(({edge:o,path:l,kind:c})=>kt`<path class=${`line ${o.kind} ${c}`} d=${l} marker-end=${`url(#arrow${c})`}
data-from=${o.from} data-to=${o.to}></path>`)}</svg>`}focus(){let{focused:e,selected:n}=this;if(!n)return{edge:i=>i.dirty?"dirty":"",near:null};let r=new Set,s=new Set([Jn(n)]);for(let[i,o]of e?.edges??[])r.add(`${Jn(i)}
${Jn(o)}`);for(let i of[...e?.upstream??[],...e?.downstream??[]])s.add(Jn(i));return{near:e?s:null,edge:i=>r.has(`${i.from}
${i.to}`)?"focus":""}}box(e,{spots:n}){let r=n.get(e.id),s=e.kind==="group",i=this.selected&&Jn(this.selected)===e.id,{near:o}=this.marked,l=Yn(e.states),c=e.outcomes?.failed?"failed":e.outcomes?.running?"running":l[0]?.[0]??"clean",h=["box",`box-${e.content}`,s?"closed":"",i?"current":"",`edge-${G(c).tone}`,o&&!o.has(e.id)&&!s?"far":""].join(" "),m=e.count===1&&!s,u=s?"":T("why",m?e.first:e.pattern);return a`<li
class=${h}
data-id=${s?e.name:m?e.first:e.pattern}
data-state=${c}
style=${We({transform:`translate(${r.x-e.width/2}px, ${r.y-e.height/2}px)`,width:`${e.width}px`,height:`${e.height}px`})}
>
${s?a`<button
type="button"
class="box-link"
@click=${()=>{let f=new Set(this.closed);f.delete(e.name),this.closed=f}}
>
<span class="box-title"
><b>${e.name}</b><span class="soft">import · ${Z(e.jobs,"job")}</span></span
>
</button>`:a`<a class="box-link" href=${u} title=${e.job}
><span class="box-title"
><b>${e.name}</b>
<span class="soft">${e.count>1?`${L(e.count)} × `:""}${e.action}</span></span
></a
>`}
${this.content(e)}
<span class="box-foot">${this.words(e,l)}</span>
${xn(e.states,{label:!1})}
</li>`}words(e,n){let r=e.outcomes?.failed?[["failed",e.outcomes.failed]]:[],i=[...e.outcomes?.running?[["running",e.outcomes.running]]:[],...r,...n],o=e.width-28,l=([c,h],m)=>(o-=(G(c).word.length+(e.count>1?String(h).length+1:0))*7+26,m===0||o>-10);return i.filter(l).map(([c,h])=>a`<span class="said tone-${G(c).tone}"
>${he(c)}${e.count>1?`${L(h)} `:""}${G(c).word}</span
>`)}content(e){if(e.content==="picture")return a`<span class="pictures one">${this.picture(e.images[0])}</span>`;if(e.content==="pictures")return a`<span class="pictures">${e.images.map(n=>this.picture(n))}</span>`;if(e.content==="text")return a`<span class="box-text">${e.text}</span>`;if(e.content==="instances"){let n=new Map(e.images.map(r=>[r.job,r]));return a`<span class="pictures"
>${e.instances.map(r=>a`<a
class="instance tone-${G(Sn(r)).tone}
${this.selected===r.id?"current":""} state-${Sn(r)}"
href=${T("why",r.id)}
data-id=${r.id}
data-code=${r.code??g}
title="${r.id}: ${G(Sn(r)).word}"
>
${n.has(r.id)&&r.state!=="inactive"?this.picture(n.get(r.id)):a`<span class="no-picture"
>${r.state==="inactive"?"condition is false":r.outcome==="failed"?"failed":"no picture yet"}</span
>`}
<span class="instance-index"
>${Sn(r)==="clean"?g:he(Sn(r))}${tn(r.id).index.slice(1,-1)}</span
></a
>`)}</span
>`}return e.content==="cells"?a`<span class="cells" style=${We({"--columns":e.columns})}
>${e.instances.map(n=>a`<a
href=${T("why",n.id)}
class=${this.selected===n.id?"current":""}
data-id=${n.id}
data-code=${n.code??g}
aria-label="${n.id}: ${G(Sn(n)).word}"
title="${n.id}: ${G(Sn(n)).word}"
>${he(Sn(n))}</a
>`)}</span
>`:g}picture(e){let n=this.url(e.href??`blob/${e.sha256}`,e.sha256);return n?a`<img src=${n} alt="" loading="lazy" decoding="async" draggable="false" />`:a`<span class="no-picture">not in this file</span>`}beginning(){let{model:e,spots:n}=this.placed,r=o=>Au.has(zl(o))?99:cn(zl(o)),s=({id:o})=>this.placed.direction==="TB"?n.get(o).y:(n.get(o).band??0)*1e6+n.get(o).x,i=(o,l)=>r(o)-r(l)||s(o)-s(l);return this.chosen()??n.get([...e.boxes].sort(i)[0].id)}chosen(){return this.selected?this.placed?.spots.get(Jn(this.selected)):void 0}toggleGroups(){let e=this.graph?.groups?.map(n=>n.import)??[];this.closed=this.closed.size?new Set:new Set(e),this.moved=!1}neighbour(e){let{placed:n}=this;if(!n)return null;let r=this.selected&&Jn(this.selected);if(!r)return Hl([...n.model.boxes].filter(o=>o.kind==="job").sort((o,l)=>cn(ls(o))-cn(ls(l)))[0]);let s=n.model.edges.filter(o=>(e>0?o.from:o.to)===r).map(o=>e>0?o.to:o.from),i=n.model.boxes.filter(o=>s.includes(o.id)&&o.kind==="job").sort((o,l)=>cn(ls(o))-cn(ls(l)))[0];return Hl(i)}},Dl=new OffscreenCanvas(1,1).getContext("2d");function Ou(t,e,n=400){return Dl.font=`${n} ${e}px ${getComputedStyle(document.body).fontFamily}`,Dl.measureText(t).width}var Sn=t=>t.outcome==="failed"||t.outcome==="running"?t.outcome:t.state,Au=new Set(["clean","inactive","pinned"]),zl=t=>t.outcomes?.failed?"failed":t.outcomes?.running?"running":ls(t),ls=t=>Yn(t.states)[0]?.[0]??"clean",Hl=t=>t&&T("why",t.count===1?t.first:t.pattern),Jn=t=>t.includes("]/")?ut(t).replace(Us,""):ut(t).replace(/\[.*$/,""),Tu=(t,e)=>{let n=t.lastIndexOf("/");return n>0&&e.has(t.slice(0,n))?`in:${t.slice(0,n)}`:null};customElements.define("wr-graph",mo);var Cu={deleted:"was deleted",changed:"was changed by hand",unpublished:"is not published there yet",unreadable:"is no valid JSON object any more",lost:"has lost its stored bytes",retyped:"was made with another type or suffix",disowned:"is not recognised by its action",running:"is being made now"},ju={RETRY_PREVIOUS_FAILURE:"failed last time",MISSING_OUTPUT:"output is missing",INPUT_CHANGED:"input changed",UPSTREAM_FAILED:"waits for a job that failed",UPSTREAM_DIRTY:"follows a job that will run",FORCED:"forced"},st=t=>ju[t]??t,Xs=t=>t==="UPSTREAM_DIRTY"||t==="UPSTREAM_FAILED";function Nu(t){if(t.more)return a`… and ${t.more} more of the same.`;switch(t.code){case"RETRY_PREVIOUS_FAILURE":return a`It failed in
<a href=${T("run",t.run)}>${t.run}</a
>${t.attempt>1?a`, attempt ${t.attempt}`:g}: <b>${t.error_type}</b>.
<span class="quote">${vn(t.error)}</span>`;case"MISSING_OUTPUT":return t.artifact?t.change?a`${W(t.artifact)}
${Cu[t.change]??t.change}${t.path?a`: <code>${t.path}</code>`:g}.`:a`${W(t.artifact)} was not made yet.`:a`It has not succeeded yet.`;case"INPUT_CHANGED":return Iu(t);case"UPSTREAM_FAILED":return a`It needs ${W(t.artifact)}, and the job that makes it failed.`;case"UPSTREAM_DIRTY":return a`It reads what ${W(t.job)} makes, and that job will run.`;case"FORCED":return a`You asked for it with <code>--force ${t.by}</code>.`;default:return a`${t.text??""}`}}function Iu({binding:t,source:e,old_source:n,old:r,new:s,problem:i,files:o,versions:l,old_as:c,new_as:h,read:m,text:u}){if(m)return Lu(m,e,u);if(i)return a`<b>${t}</b> cannot be computed: ${i}`;if(t==="action")return a`The code of its action
changed${o?.length?a`: ${o.map((y,k)=>a`${k?", ":""}<code>${y}</code>`)}`:g}${l?.length?a` (${l.join(", ")})`:g}.`;if(!e&&!n)return a`<b>${t}</b>: ${r?"another list":"an empty list was added or removed"}.`;if(!e)return a`It no longer reads ${W(n)} as <b>${t}</b>.`;let f=/\.(with|env)\./.exec(e)||e.endsWith(".action"),v=f?g:a`It reads ${W(e)} as
<b>${t}</b>${n&&n!==e?a` instead of ${W(n)}`:g}`;return r?r===s?a`${v===g?a`<b>${t}</b>`:v}, in another form: ${c??""} →
${h??u}.`:f?a`The parameter <b>${t}</b> changed.`:a`${v}, and the content changed since its last success.`:v===g?a`The parameter <b>${t}</b> was added.`:a`${v}, which it did not before.`}function Lu(t,e,n){let r=a`<code>${e}</code>`,s=a`(${n.slice(n.lastIndexOf("  ")+2)})`;return t==="package"?a`It imported another version of ${r} ${s}.`:t==="folder"?a`It lists the folder ${r} without declaring it, and other files are in it now ${s}.`:a`It reads ${r} without declaring it, and that file changed ${s}.`}var Fl=({read:t,source:e},n)=>t==="package"?`the version of ${e}`:t==="folder"?`a folder that ${n} lists without declaring it, ${e},`:`a file that ${n} reads without declaring it, ${e},`;function ei(t,{change:e,url:n,job:r,compact:s=!1}={}){return a`<article
class="reason code-${Xs(t.code)?"follows":"own"}"
data-code=${t.code}
data-id=${r??g}
>
<p class="code">${t.code}</p>
<p class="sentence">${Nu(t)}</p>
${t.read?g:e?Tr(e,{url:n,compact:s}):t.old_value!==void 0||t.new_value!==void 0?Tr({old:{value:t.old_value,sha256:t.old},new:{value:t.new_value,sha256:t.new}},{url:n,compact:s}):t.old||t.new?a`<p class="hashes">${Ul(t.old)}${le.arrow}${Ul(t.new)}</p>`:g}
</article>`}var Ul=t=>a`<code title=${t??""}>${t?Ue(t):"nothing"}</code>`;function Tr(t,{url:e,compact:n=!1}={}){let{old:r,diff:s,diff_more:i}=t,o=t.new&&{...t.new,kept:void 0},l=t.path??o?.path??r?.path;return s?.length?a`${l?a`<p class="soft path">${l}</p>`:g}${wo(s,i,n?6:400)}`:go(r)||go(o)?a`<div class="then-now">
${Vl(r,e,r?.run??"before")}<span class="to">${le.arrow}</span>${Vl(o,e,"now")}
<p class="soft path">
${l??g}${r?.size&&o?.size?a`<br />${Re(r.size)} → ${Re(o.size)}`:g}${t.summary?a`<br />${t.summary}`:g}
</p>
</div>`:Zs(r)||Zs(o)?a`<div class="values">
<span class="was">${Zs(r)?Le(r.value,n?80:400):Qs(r)}</span>
<span class="to">${le.arrow}</span
><span class="is">${Zs(o)?Le(o.value,n?80:400):Qs(o)}</span>
</div>`:a`<div class="values">
<span class="was">${Qs(r)}</span><span class="to">${le.arrow}</span
><span class="is">${Qs(o)}</span> ${l?a`<span class="soft path">${l}</span>`:g}
</div>`}var Zs=t=>t&&"value"in t&&t.value!==void 0,go=t=>t&&(t.kind==="image"||t.kind==="svg")&&t.href;function Qs(t){return t?a`<code title=${t.sha256??""}>${Ue(t.sha256)}</code
>${t.size!==void 0?a` <span class="soft">${Re(t.size)}</span>`:g}
${t.kept===!1?a`<span class="soft">old content not kept</span>`:g}`:a`<span class="soft">nothing</span>`}function Vl(t,e,n){let r=go(t)?e(t.href,t.sha256):null;return a`<figure class="pictured">
${r?a`<img src=${r} alt="${n}: ${t.sha256?Ue(t.sha256):""}" decoding="async" />`:a`<span class="no-picture"
>${t?.kept===!1?"old content not kept":t?Ue(t.sha256)||"not here":"nothing"}</span
>`}
<figcaption>
${n}${t?.sha256?a` · <code>${Ue(t.sha256).slice(0,4)}…</code>`:g}
</figcaption>
</figure>`}var Pu={"+":"added","-":"removed","@":"hunk"};function wo(t,e=0,n=400){return a`<div class="diff" role="table" aria-label="Changed lines">
${t.slice(0,n).map(([r,s])=>a`<div role="row" class=${Pu[r]??"same"}>
<span role="cell" class="mark">${r==="@"?"":r}</span
><span role="cell">${r==="@"?s.replace(/^@@ .*\+(\d+).*@@/,"line $1"):s}</span>
</div>`)}
${e||t.length>n?a`<div role="row">
<span role="cell" class="soft">… ${e+Math.max(t.length-n,0)} more lines</span>
</div>`:g}
</div>`}function Cr(t,{id:e,brief:n=!1,open:r=!1}={}){let{traceback:s,stderr:i}=t,o=s||i?.length?vn(t.error):t.error??"",l=o&&i?.length&&s?.split(`
`)[0].endsWith(o.split(`
`)[0]),c=t.error_type&&!o.startsWith(t.error_type)?t.error_type:"";return a`<article class="failure" data-id=${e??g} data-code=${t.status??"FAILED"}>
<p class="failure-head">
${he("failed")}<b>${n&&e?W(e):"It failed"}</b>
${t.run?a`in <a href=${T("run",t.run)}>${t.run}</a>`:g}${t.attempt>1?a`, attempt ${t.attempt}`:g}
</p>
<p class="failure-error">${c?a`<b>${c}</b>: `:g}${o}</p>
${t.place?a`<p class="soft"><code>${t.place}</code></p>`:g}
${t.because?.length?a`<p>Blocked by ${t.because.slice(0,5).map((h,m)=>a`${m?", ":""}${W(h)}`)}</p>`:g}
${s&&!l?a`<details ?open=${r}>
<summary>Traceback</summary>
<div class="output">
${kn(s,"Copy the traceback")}
<pre class="trace" tabindex="0" aria-label="Traceback">${s}</pre>
</div>
</details>`:g}
${Wl("Last lines of stderr",i,r)}${Wl("Last lines of stdout",t.stdout,!1)}
${n&&e&&!r?a`<p class="failure-more">
<a href=${T("why",e)}>${s?"Its reasons, and what follows":"Traceback and output"}</a>
</p>`:g}
</article>`}var Wl=(t,e,n)=>e?.length?a`<details ?open=${n}>
<summary>${t}</summary>
<div class="output">
${kn(e.join(`
`),`Copy: ${t}`)}
<pre tabindex="0" aria-label=${t}>${e.join(`
`)}</pre>
</div>
</details>`:g;function ti(t,{job:e,state:n,outcome:r,code:s,filters:i=!1}){let o=Number(t.params.page??0),l={job:e,state:n??t.params.state,outcome:r,code:s??t.params.code,q:t.params.q,page:o},c=t.read("instances",l);return a`<div class="filters">
<label class="field"
><span class="sr">Filter by name</span
><input
type="text"
placeholder="Filter by name"
autocomplete="off"
.value=${t.params.q??""}
@change=${h=>Ve({q:h.target.value,page:null})}
/></label>
${i?a`<label class="field"
><span class="sr">State</span
><select @change=${h=>Ve({state:h.target.value,page:null})}>
<option value="" ?selected=${!t.params.state}>all states</option>
${Er.filter(h=>h!=="failed"&&h!=="running").map(h=>a`<option value=${h} ?selected=${t.params.state===h}>${G(h).word}</option>`)}
</select></label
>`:g}
</div>
${ve(c,h=>a`<p class="soft total">${L(h.total)} ${h.total===1?"instance":"instances"}</p>
${h.rows.length?a`<ul class="instances">
${h.rows.map(m=>Ru(m))}
</ul>`:_e("No instance fits.","Clear the filter to see all.")}
${bo(h)}${$e(t.command(h.command))}`)}`}function Ru(t){let e=t.outcome==="failed"||t.outcome==="running"?t.outcome:t.state;return a`<li data-id=${t.id} data-code=${t.code??g} data-state=${t.state}>
<span class="mark" title=${G(e).word}>${he(e)}<span class="sr">${G(e).word}</span></span>
<span class="row-main"
>${W(t.id,{kind:!1})}${t.error&&t.outcome==="failed"?a`<span class="row-text bad">${t.error}</span>`:t.code?a`<span class="row-text"
><b>${st(t.code)}</b> ${t.text}${t.more?` and ${t.more} more`:""}</span
>`:g}</span
>
<span class="row-end soft"
>${t.duration!==null&&t.duration!==void 0?ie(t.duration):g}</span
>
</li>`}function bo({page:t=0,pages:e=1}){if(e<=1)return g;let n=r=>()=>Ve({page:r||null});return a`<div class="pager" role="group" aria-label="Pages">
<button type="button" ?disabled=${t<=0} @click=${n(t-1)}>Before</button>
<span>${L(t+1)} of ${L(e)}</span
><button type="button" ?disabled=${t>=e-1} @click=${n(t+1)}>Next</button>
</div>`}function ni({duration:t,gaps:e=[]},n=t){let r=Math.max(t??0,n??0,.001),s=e.map(([h,m])=>[Math.max(h,0),Math.min(m,r)]).filter(([h,m])=>m>h),i=Math.max(r-s.reduce((h,[m,u])=>h+u-m,0),r*1e-6),o=i*.05,l=i+o*s.length,c=h=>{let m=h;for(let[u,f]of s)h>u&&(m-=Math.min(h,f)-u-o*Math.min((h-u)/(f-u),1));return Math.min(Math.max(m/l,0),1)};return{at:c,end:r,gaps:s.map(([h,m])=>({from:c(h),to:c(m),seconds:m-h}))}}function ri({step:t=[],attempt:e=[],start:n=[],end:r=[],status:s=[],retry:i=[]},o){let l=t.map((h,m)=>m).sort((h,m)=>n[h]-n[m]),c=[];return l.map(h=>{let m=r[h]??o,u=c.findIndex(f=>f<=n[h]+1e-9);return u<0&&(u=c.push(0)-1),c[u]=m,{step:t[h],attempt:e[h],start:n[h],end:m,open:r[h]===null,status:s[h],retry:i[h],lane:u}})}var Du={EXECUTES:"ok",SUCCEEDED:"ok",COMPLETED:"ok",RUNNING:"live",FAILED:"bad",TIMED_OUT:"bad",INTERRUPTED:"bad",SKIPS:"off",REUSED:"reuse",BLOCKED:"wait",ADOPTED:"reuse"},cs=t=>Du[String(t).toUpperCase()]??"off";var $o=14,zu=2,Hu=200,Uu=new Set(["when","steps"]),Kn={decide:"kept",adopt:"adopted"},Bl=.22;function si(t){let{state:e,route:n}=t,r=(e.runs??[]).filter(m=>m.mode==="run"||Kn[m.mode]);if(!r.length)return a`<section class="time none" aria-label="Time machine">
<div class="time-title">
<h2>Time machine</h2>
<p class="soft">After the first run, every plan stays here as it was.</p>
</div>
</section>`;let s=n.view==="plan"?n.args[0]:null,i=s?r.findIndex(m=>m.run===s):-1,o=Math.max(0,Math.min(r.length-$o,i<0?1/0:i-$o+3)),l=r.slice(o,o+$o),c=r[i]??r.at(-1),h=c.planned===null?null:t.read("run",{id:c.run}).value;return a`<section class="time" aria-label="Time machine">
<div class="time-line">
<div class="time-title">
<h2>Time machine</h2>
<p class="soft">Choose a run to see its plan as it was.</p>
</div>
<ol class="stops">
${o?a`<li class="earlier"><a href=${T("runs")}>${L(o)} earlier</a></li>`:g}
${l.map(m=>a`<li>
<a
href=${T(Kn[m.mode]?"run":"plan",m.run)}
aria-current=${s===m.run?"step":g}
data-id=${m.run}
title="${m.run} ${m.state}: ${Mn(m)}"
>
<span class="stop-mark">${he(ql(m))}</span
><span class="stop-name"
>${m.run}${m.state==="succeeded"?Kn[m.mode]?` ${Kn[m.mode]}`:g:a` <span class="tone-${G(ql(m)).tone}">${m.state}</span>`}</span
></a
>
</li>`)}
<li class="now">
<a href=${T("graph")} aria-current=${s?g:"step"}
><span class="stop-mark"></span><span class="stop-name">${e.at?"end":"now"}</span></a
>
</li>
</ol>
</div>
<div class="time-facts">
<h3>
<a href=${T("run",c.run)}
>${c.run}
${c.state}${c.duration!==null&&c.duration!==void 0?` in ${ie(c.duration)}`:""}</a
>
</h3>
${h?Vu(h):a`<div class="small-timeline"></div>`}
<dl>
${[["when",kr(c.started)],["steps",Mn(c)],["cost",h?.usage?.cost??null],["processor",h?.usage?.cpu_seconds?ie(h.usage.cpu_seconds):null],["peak memory",h?.usage?.max_rss_bytes?Re(h.usage.max_rss_bytes):null]].filter(([,m])=>m).map(([m,u])=>a`<div>
<dt class=${Uu.has(m)?"sr":""}>${m}</dt>
<dd>${u}</dd>
</div>`)}
</dl>
</div>
</section>`}var ql=t=>t.state==="succeeded"?"succeeded":t.state==="running"?"running":t.state==="interrupted"?"interrupted":"failed";function Mn(t){return[[t.completed,Kn[t.mode]??"executed"],[t.reused,"reused"],[t.failed,"failed"],[t.interrupted,"interrupted"],[t.blocked,"blocked"],[t.skipped,"inactive"]].filter(([n])=>n>0).map(([n,r])=>`${L(n)} ${r}`).join(", ")||Z(t.planned??0,"step")}function Vu({timeline:t,id:e}){if(!t?.step?.length)return g;let n=ni(t),r=ri(t,n.end).filter(i=>i.lane<zu),s=Math.max(...r.map(i=>i.lane))+1;return a`<div
class="small-timeline"
style=${We({"--lanes":s})}
role="img"
aria-label="Steps of ${e} in time"
>
${r.slice(0,Hu).map(i=>{let[o,l]=[n.at(i.start),n.at(i.end)];return a`<span
class="bit tone-${cs(i.status)} ${l-o<Bl?"tiny":""}"
title="${t.steps[i.step]}: ${ie(i.end-i.start)}"
style=${We({left:`${o*100}%`,width:`${Math.max((l-o)*100,.4)}%`,"--lane":i.lane})}
>${l-o<Bl?g:ut(t.steps[i.step])}</span
>`})}
</div>`}var Yl=30,vo=11;var xo=class extends He{static properties={cells:{attribute:!1},selected:{attribute:!1},only:{attribute:!1},hovered:{state:!0}};createRenderRoot(){return this}connectedCallback(){super.connectedCallback(),this.resizing=new ResizeObserver(()=>{this.fit(),this.draw()}),this.resizing.observe(this),this.scheme=matchMedia("(prefers-color-scheme: dark)"),this.recolour=()=>{this.paint(),this.draw()},this.scheme.addEventListener("change",this.recolour),addEventListener("whyrun-theme",this.recolour)}disconnectedCallback(){super.disconnectedCallback(),this.resizing.disconnect(),this.scheme.removeEventListener("change",this.recolour),removeEventListener("whyrun-theme",this.recolour)}render(){let{cells:e}=this;return a`<canvas
tabindex="0"
role="img"
aria-label="${L(e?.count)} instances of ${e?.job}, a cell each. The list below has the same."
@pointerdown=${this.down}
@pointermove=${this.move}
@pointerup=${this.up}
@pointerleave=${()=>{this.hovered=null}}
@wheel=${this.wheel}
@keydown=${this.key}
></canvas>
<p class="grid-says" aria-live="polite">${this.says()}</p>`}says(){let{cells:e,hovered:n}=this;if(!e)return"";let r=e.axes?.map(i=>`${i.loop} ${L(i.size)}`).join(" × ")??"";if(n==null)return`${r}${e.count>500?" · scroll zooms, drag moves":""}`;let s=this.code(n);return`${Vt(e.job,this.texts[n]).slice(4)}: ${G(this.state(n)).word}${s?`, ${s}`:""}`}willUpdate(e){e.has("cells")&&this.cells&&(this.texts=Bn(this.cells),this.reading=null)}updated(e){this.cells&&((e.has("cells")||e.has("only"))&&this.paint(),e.has("cells")&&this.fit(),this.draw())}state(e){let{legend:n,states:r,outcomes:s}=this.cells,i=n.outcomes?.[s[e]];return i==="failed"||i==="running"?i:n.states?.[r[e]]??r[e]}code(e){let{headline:n,headlines:r}=this.cells;return n?.[e]&&n[e]!=="."?r[parseInt(n[e],36)]:null}paint(){let{cells:e}=this;if(!e)return;let n=e.axes?.length>1?e.axes.at(-1).size:0,r=n>1&&e.axes.reduce((o,l)=>o*l.size,1)===e.count;this.columns=r&&n<=400&&e.count/n<=n*12?n:0,this.tones=new Map;let s=document.createElement("span");this.append(s);let i=o=>(s.style.color=`var(--${o})`,getComputedStyle(s).color);this.ink={text:i("text"),accent:i("accent"),ground:i("raised")};for(let o of["run","ok","off","bad","wait","reuse","live"])this.tones.set(o,{strong:i(o),cell:i(`${o}-cell`)});s.remove(),this.layOut()}layOut(){let{cells:e}=this,n=(this.clientWidth||360)/Math.max(this.canvasHeight(),1),r=Math.max(Math.min(Math.ceil(Math.sqrt(e.count*n)),e.count),1),s=this.shown=this.columns?this.columns*Math.max(Math.round(r/this.columns),1):r,i=this.rowCount=Math.ceil(e.count/s),o=new ImageData(s,i),l=new Uint32Array(o.data.buffer),c=new Map;for(let h=0;h<e.count;h++){let m=e.states[h]+e.outcomes[h],u=c.get(m);u===void 0&&c.set(m,u=Gl(this.tones.get(G(this.state(h)).tone).cell)),l[h]=this.only&&!this.only(this.state(h),this.code(h))?0:u}this.image=new OffscreenCanvas(s,i),this.image.getContext("2d").putImageData(o,0,0)}canvasHeight(){return this.querySelector("canvas")?.clientHeight||240}fit(){if(!this.cells||!this.clientWidth)return;this.layOut();let e=Math.min(this.clientWidth/this.shown,this.canvasHeight()/this.rowCount,Yl);this.view={size:e,x:0,y:0,least:e}}draw(){let e=this.querySelector("canvas");if(!e||!this.cells||!this.view||!this.image)return;let n=devicePixelRatio||1,[r,s]=[e.clientWidth,e.clientHeight];(e.width!==r*n||e.height!==s*n)&&(e.width=r*n,e.height=s*n);let i=e.getContext("2d");i.setTransform(n,0,0,n,0,0),i.clearRect(0,0,r,s);let{size:o,x:l,y:c}=this.view;i.imageSmoothingEnabled=o<1,o<vo&&i.drawImage(this.image,l,c,this.shown*o,this.rowCount*o);let[h,m]=[Math.max(Math.floor(-c/o),0),Math.min(Math.ceil((s-c)/o),this.rowCount)],[u,f]=[Math.max(Math.floor(-l/o),0),Math.min(Math.ceil((r-l)/o),this.shown)];o>=4&&o<vo&&this.rule(i,{size:o,x:l,y:c,first:h,last:m,left:u,right:f}),o>=vo&&this.cellsOneByOne(i,{size:o,x:l,y:c,first:h,last:m,left:u,right:f});for(let[v,y]of[[this.hovered,this.ink.text],[this.position(this.selected),this.ink.accent]]){if(v==null||v<0)continue;i.strokeStyle=y,i.lineWidth=2;let k=Math.max(o,5);i.strokeRect(l+v%this.shown*o-(k-o)/2,c+Math.floor(v/this.shown)*o-(k-o)/2,k,k)}}rule(e,{size:n,x:r,y:s,first:i,last:o,left:l,right:c}){e.fillStyle=this.ink.ground;for(let h=i;h<=o;h++)e.fillRect(r+l*n,s+h*n-.5,(c-l)*n,1);for(let h=l;h<=c;h++)e.fillRect(r+h*n-.5,s+i*n,1,(o-i)*n)}cellsOneByOne(e,{size:n,x:r,y:s,first:i,last:o,left:l,right:c}){for(let h=i;h<o;h++)for(let m=l;m<c;m++){let u=h*this.shown+m;if(u>=this.cells.count)return;let f=this.state(u),{tone:v}=G(f);e.globalAlpha=this.only&&!this.only(f,this.code(u))?.2:1;let y=Math.min(n*.62,14);e.save(),e.translate(r+(m+.5)*n-y/2,s+(h+.5)*n-y/2),e.scale(y/12,y/12),e.fillStyle=this.tones.get(v).strong,e.fill(Fu(f),"evenodd"),e.restore()}e.globalAlpha=1}position(e){return this.reading??=new Map(this.texts.map((n,r)=>[Vt(this.cells.job,n),r])),this.reading.get(e)??null}under(e){let n=this.querySelector("canvas").getBoundingClientRect(),r=Math.floor((e.clientX-n.left-this.view.x)/this.view.size),s=Math.floor((e.clientY-n.top-this.view.y)/this.view.size),i=s*this.shown+r;return r>=0&&r<this.shown&&s>=0&&i<this.cells.count?i:null}down(e){this.from={x:e.clientX,y:e.clientY,dragged:0},e.currentTarget.setPointerCapture(e.pointerId)}move(e){if(this.from){let[r,s]=[e.clientX-this.from.x,e.clientY-this.from.y];if(this.from={x:e.clientX,y:e.clientY,dragged:this.from.dragged+Math.abs(r)+Math.abs(s)},this.from.dragged>4){this.shift(r,s);return}}let n=this.under(e);n!==this.hovered&&(this.hovered=n)}up(e){let n=this.from?.dragged??0;this.from=null;let r=this.under(e);n<=4&&r!==null&&this.open(r)}open(e){location.hash=T("why",Vt(this.cells.job,this.texts[e]))}shift(e,n){let r=this.querySelector("canvas"),{size:s}=this.view,i=(o,l,c)=>c<=l?0:Math.min(0,Math.max(l-c,o));this.view.x=i(this.view.x+e,r.clientWidth,this.shown*s),this.view.y=i(this.view.y+n,r.clientHeight,this.rowCount*s),this.draw()}wheel(e){e.preventDefault();let n=e.currentTarget.getBoundingClientRect(),{size:r,least:s}=this.view,i=Math.min(Math.max(r*Math.exp(-e.deltaY/240),s),Math.max(Yl,s)),[o,l]=[e.clientX-n.left,e.clientY-n.top];this.view.x=o-(o-this.view.x)*i/r,this.view.y=l-(l-this.view.y)*i/r,this.view.size=i,this.shift(0,0)}key(e){let n={ArrowLeft:-1,ArrowRight:1,ArrowUp:-this.shown,ArrowDown:this.shown}[e.key];if(e.key==="Enter"&&this.hovered!==null&&this.hovered!==void 0&&this.open(this.hovered),!n)return;e.preventDefault(),e.stopPropagation();let r=(this.hovered??this.position(this.selected)??-1)+n;r>=0&&r<this.cells.count&&(this.hovered=r)}},yo=new Map;function Fu(t){return yo.has(t)||yo.set(t,new Path2D(ns(t))),yo.get(t)}function Gl(t){let n=(Gl.canvas??=new OffscreenCanvas(1,1)).getContext("2d",{willReadFrequently:!0});n.fillStyle=t,n.fillRect(0,0,1,1);let[r,s,i]=n.getImageData(0,0,1,1).data;return(255<<24|i<<16|s<<8|r)>>>0}customElements.define("wr-grid",xo);var Wu=12;function Jl(t,e){let n=e.replace(/^Job:/,"").replace(/\[\*\]/g,""),r=t.read("graph").value?.nodes.find(c=>c.job===n),s=a`<p class="way"><a href=${T("graph")}>${le.back}The plan in words</a></p>`;if(!r)return t.read("graph").value?a`${s}${_e("There is no such job.",e)}`:g;let i=r.count>Wu?t.read("cells",{job:n}).value:null,{state:o,code:l}=t.params;return a`${s}
<h1 class="id-title">${be(e)}</h1>
<p class="soft">${r.action}${r.condition?a` · if <code>${r.condition}</code>`:g}</p>
<p class="soft">
${Z(r.count,"instance")}${r.loops?.length?a` over ${r.loops.join(" × ")}`:g}
</p>
${xn(r.states)}
<p class="said-line">
${Yn(r.states).map(([c,h])=>Bu(c,L(h),o===c,{state:o===c?null:c,page:null}))}
</p>
${Object.keys(r.headlines??{}).length?a`<p class="said-line">
${Object.entries(r.headlines).map(([c,h])=>a`<button
type="button"
class="said said-filter"
data-code=${c}
aria-pressed=${l===c?"true":"false"}
@click=${()=>Ve({code:l===c?null:c,page:null})}
>
${st(c)}: ${L(h)}
</button>`)}
</p>`:g}
${i?a`<wr-grid
class=${r.count>2e3?"large":r.count<120?"short":""}
.cells=${i}
.only=${qu(o,l)}
></wr-grid>`:g}
${ti(t,{job:n})}`}var Bu=(t,e,n,r)=>a`<button
type="button"
class="said said-filter tone-${G(t).tone}"
aria-pressed=${n?"true":"false"}
@click=${()=>Ve(r)}
>
${he(t)}${e} ${G(t).word}
</button>`,ko=new Map;function qu(t,e){if(!t&&!e)return null;let n=`${t??""} ${e??""}`;return ko.has(n)||ko.set(n,(r,s)=>(!t||r===t)&&(!e||s===e)),ko.get(n)}function Zl(t,e){let n=t.read("why",{id:e,at:t.params.at});return a`${Yu(t,e)}${ve(n,r=>r.answer?.readers?tp(t,r):Gu(t,r))}`}function Yu(t,e){let{name:n,index:r,kind:s}=tn(e),i=t.read("graph").value?.nodes.find(u=>u.job===n),o=s==="Job"&&r&&i?.count>1,l=o?t.read("cells",{job:n}).value:null,c=l&&Bn(l),h=c?.findIndex(u=>Vt(n,u)===e)??-1,m=u=>c?.[h+u]!==void 0&&h>=0?T("why",Vt(n,c[h+u])):null;return a`<p class="way">
${t.params.at?a`<a href=${T("plan",t.params.at)}>${le.back}The plan of ${t.params.at}</a>`:a`<a href=${o?T("why",i.pattern):T("graph")}
>${le.back}${o?`All ${n}`:"The plan in words"}</a
>`}
${o?a`<span class="steps">${Kl(m(-1),"before",le.back)}${Kl(m(1),"after",le.on)}</span>`:g}
</p>`}var Kl=(t,e,n)=>a`<a
class="step"
data-step=${e}
aria-label="The instance ${e}"
aria-disabled=${t?g:"true"}
href=${t??g}
>${n}</a
>`;function Gu(t,e){let n=e.answer?.jobs?.find(c=>c.id===(e.answer.job??e.id))??e.answer?.jobs?.[0]??{},r=e.job??{},s=n.reasons??e.explain?.reasons??[],i=n.state??e.explain?.state??"clean",o=r.latest_attempt?.status,l=r.latest_attempt?.duration;return a`<article class="why" data-id=${n.id??e.id} data-state=${i}>
<p class="chips">
${pt(i)}${o&&o.toLowerCase()!=="succeeded"?pt(o,{words:`last time: ${G(o).word}`}):g}
</p>
<h1 class="id-title">${be(n.id??e.id)}</h1>
<p class="soft">
${r.action}${r.layer!==void 0?` · layer ${r.layer}`:""}${l?` · took ${ie(l)} last time`:""}
</p>
${e.failure?Cr(e.failure,{id:n.id,open:!0}):g}
${s.length?a`<div class="reasons" role="list" aria-label="Reasons">
${s.map((c,h)=>a`<div role="listitem">
${ei(c,{change:e.changes?.find(m=>m.reason===h),url:t.url,job:n.id})}
</div>`)}
</div>`:g}
${i==="clean"?Ju(n,r):g} ${n.because?Zu(n.because):g}
${n.reuse||e.explain?.reuse?a`<p>
An earlier result with the same content is taken from
<a href=${T("run",n.reuse??e.explain.reuse)}>${n.reuse??e.explain.reuse}</a>, so it does
not run.
</p>`:g}
${e.explain?.conditional||n.conditional?a`<p class="note">Its condition is decided during the run, so it may turn out inactive.</p>`:g}
${Qu(e,n)} ${i==="clean"?g:Xl(r,s)} ${ep(t,r)}
${$e(t.command(e.command))}
</article>`}function Ju(t,e){let{last_success:n}=t;return a`<p class="verdict">
${n?a`Nothing that it reads has changed since
<a href=${T("run",n.run)}>${n.run}</a>${n.how==="executed"?"":` (${n.how})`}, and
its outputs are there.`:"Nothing that it reads has changed."}
</p>
${t.compared?.length?te("What is the same",Ku(t.compared)):e.bindings?Xl(e,[]):g}`}var Ku=t=>a`<dl class="facts same">
${t.slice(0,40).map(e=>a`<div>
<dt>${e.name}</dt>
<dd>
${"value"in e?Le(e.value):g}
${e.id&&!/\.(with|env|action)/.test(e.id)?W(e.id):g}
<code class="soft" title=${e.sha256??""}>${Ue(e.sha256)}</code>
</dd>
</div>`)}
${t.length>40?a`<div>
<dt></dt>
<dd class="soft">and ${t.length-40} more</dd>
</div>`:g}
</dl>`;function Zu({condition:t,inputs:e,source:n}){return a`<article class="reason code-own" data-code="condition_false">
<p class="code">${t?"condition_false":"source_inactive"}</p>
${t?a`<p class="sentence">It does not run, because its condition is false:</p>
<p class="condition"><code>${t}</code></p>`:a`<p class="sentence">It does not run, because what it reads is inactive.</p>`}
${Object.entries(e??{}).map(([r,s])=>a`<p>${W(r)} is <code>${Le(s)}</code>.</p>`)}
${n?a`<p>${W(n)}</p>`:g}
</article>`}function Qu(t,e){let n=[...t.chain??[]].reverse(),r=e.state==="clean"?null:t.consequences,s=t.answer?.more??0,i=(t.roots??t.answer?.roots??[]).filter(m=>m!==e.id);if(n.length<2&&!r?.count)return g;let o=n[0],l=n.length===1?t.changes?.find(m=>m.reason===0):null,c=l?.path??l?.new?.path??l?.old?.path,h=o?.path??c;return te(r?.count?n.length>1||h?"From the cause to what follows":"What follows":"Back to the cause",a`<ol class="chain">
${h?a`<li class="root">
<span><b>${h}</b> changed</span>
</li>`:g}
${n.map((m,u)=>a`<li
class=${m.id===e.id?"here":u===0?"root":""}
data-id=${m.id}
data-code=${m.code??g}
>
<span
>${u||h?"so ":g}${m.id===e.id?a`<b>${be(m.id)}</b>`:W(m.id)}
${Ql(m.state)}${m.code&&!u&&!h?a`<span class="soft">: ${st(m.code)}</span>`:g}</span
>
</li>`)}
${r?.count?Xu(r):g}
${r?.count?a`<li class="stop">
<span class="soft"
>If what it makes comes out the same, ${r.count===1?"that job is":"those jobs are"}
skipped.</span
>
</li>`:g}
</ol>
${i.length>1?a`<p class="soft">
${Z(i.length,"cause")}:
${i.slice(0,6).map((m,u)=>a`${u?", ":""}${W(m,{kind:!1})}`)}${i.length>6?" …":""}
</p>`:g}
${s?a`<p class="soft">and ${Z(s,"more job")} on the way</p>`:g}`)}function Xu({count:t,first:e=[]}){let n=e.slice(0,6);return t===1&&n.length?a`<li data-id=${n[0].id??n[0]}>
<span>so ${W(n[0].id??n[0])} ${Ql(n[0].state)}</span>
</li>`:a`<li>
<span
>so ${Z(t,"more job")}
${t===1?"follows":"follow"}${n.length?": ":g}${n.map((r,s)=>a`${s?", ":""}${W(r.id??r,{kind:!1})}`)}${t>n.length&&n.length?` and ${L(t-n.length)} more`:""}</span
>
</li>`}var Ql=t=>({planned:"runs",reused:"takes an earlier result",deferred:"is deferred",inactive:"is inactive",clean:"is up to date"})[t]??"runs";function Xl(t,e){let n=new Set(e.map(s=>s.binding).filter(Boolean)),r=[...Object.entries(t.bindings??{}).map(([s,i])=>[s,[i].flat()]),...Object.entries(t.parameters??{}),...(t.observed??[]).filter(s=>!s.now).map(({path:s,kind:i,sha256:o})=>[s,null,o?a`<code>${Ue(o)}</code>`:i])].filter(([s])=>!n.has(s));return r.length?te("What else it reads",a`<dl class="facts same">
${r.slice(0,30).map(([s,i,o])=>a`<div>
<dt>${s}</dt>
<dd>
${o||(Array.isArray(i)&&i.every(l=>typeof l=="string"&&/^(Input|Artifact|Job):/.test(l))?a`${i.slice(0,6).map((l,c)=>a`${c?", ":""}${W(l)}`)}${i.length>6?` and ${i.length-6} more`:""}`:i&&typeof i=="object"&&"count"in i?`${i.count} elements`:Le(i))}
</dd>
</div>`)}
</dl>`):g}function ep(t,e){return e.outputs?.length?te("What it makes",a`<ul class="made">
${e.outputs.slice(0,24).map(n=>{let r=n.type==="image"&&n.sha256?t.url(`blob/${n.sha256}`):null;return a`<li>
${r?a`<a href=${T("artifact",n.id)}
><img src=${r} alt=${n.id} loading="lazy" decoding="async"
/></a>`:g}
<span
>${W(n.id)}
<span class="soft"
>${n.state==="available"?n.run:n.state}${"value"in n?a` · ${Le(n.value,60)}`:g}</span
></span
>
</li>`})}
</ul>
${e.outputs.length>24?a`<p class="soft">and ${e.outputs.length-24} more</p>`:g}`):g}function tp(t,e){let{changed:n=[],readers:r=[]}=e.answer??{},s=n.length&&r.find(l=>l.reason==="INPUT_CHANGED"),i=s?t.read("why",{id:s.job}).value?.changes:null,o=e.changes?.length?e.changes:(i??[]).filter(l=>l.id===e.id);return a`<article class="why" data-id=${e.id}>
<h1 class="id-title">${be(e.id)}</h1>
<p class="verdict">
${n.length?"It has changed since it was last read.":"It has not changed since it was last read."}
</p>
${o.map(l=>Tr(l,{url:t.url}))}
${r.length?te("Who reads it",np(r)):_e("No job reads it.")}
${Wt([["jobs that would run if it changed",e.answer?.would_run?.length||g]])}
${$e(t.command(e.command))}
</article>`}var np=t=>a`<ul class="jobs">
${t.slice(0,100).map(e=>a`<li data-id=${e.job} data-code=${e.reason??g}>
${he(e.state)}${W(e.job)}
<span class="soft">${e.reason?st(e.reason):g}</span>
</li>`)}
</ul>`;var rp=200;function Eo(t){let{route:e,state:n,params:r}=t,s=e.view==="why"?e.args[0]:null,i=s&&/\[\*\]$/.test(s),o=s&&!i&&s.startsWith("Job:")?t.read("focus",{id:s}).value:null;return So(t,{selected:s,focused:o,panel:s?i?Jl(t,s):Zl(t,s):r.list!==void 0?gp(t):sp(t),label:s?`Why ${s}`:"What will run, and why",foot:o?a`<p class="hint soft">Blue lines: what this job reads, and what it makes run. <kbd>esc</kbd> clears.</p>`:g,strip:n.totals?si(t):g})}function So(t,{selected:e=null,focused:n=null,overlay:r=null,panel:s,label:i,foot:o=g,strip:l=g}){let c=t.read("graph"),m=(t.state.totals?.jobs??1/0)<=rp&&!r?t.read("instances",{page:0}).value?.rows??null:null;return a`<div class="workbench">
<section class="canvas" aria-label="Graph">
${c.error?Gn(c.error):c.value?c.value.nodes.length?a`<wr-graph
.graph=${c.value}
.rows=${m}
.selected=${e}
.focused=${n}
.overlay=${r}
.url=${t.url}
></wr-graph>`:a`<p class="laying-out">The workflow has no jobs.</p>`:ss()}${o}
</section>
<aside class="panel" aria-label=${i} tabindex="0">${s}</aside>
</div>
${l}`}function sp(t){let{state:e}=t;if(!e.totals)return a`<h1>There is no plan</h1>
${_o(t)}`;let{jobs:n,inactive:r=0}=e.totals,s=ec(e),i=t.read("graph").value,o=i?ap(i.nodes):[];return a`${ip(t)} ${o.some(([l])=>l===ds)?g:_o(t)}
${o.map(([l,c,h])=>dp(t,l,c,h))}
${i&&!s?fp(t,i.nodes):g}
${s?a`<p class="verdict">
Nothing that the ${Z(n,"job")} read has changed since ${n===1?"its":"their"} last
success${r?a`; ${Z(r,"job")} ${r===1?"is":"are"} inactive, because a condition is
false`:g}.
Choose a job to see what it was made from.
</p>`:g}
${mp(t)}${s&&i?pp(t,i):g}
${$e(t.command(s?e.command:e.explain))}${$e(t.command(i?.command),{note:"The graph in a terminal"})}`}var ec=({totals:{planned:t=0,reused:e=0,deferred:n=0}})=>!(t||e||n);function ip({state:t}){let{planned:e,reused:n=0}=t.totals,r=t.description?a`<p class="soft">${t.description}</p>`:g;if(ec(t))return a`<h1 data-said>Everything is up to date</h1>
${r}`;let s=t.estimate!==null&&t.estimate!==void 0,i=[t.runs?.length?null:"There was no run yet.",e?s?`It takes about ${ie(t.estimate)}.`:"How long it takes is not known yet.":null,n?`${Z(n,"result")} ${n===1?"is":"are"} taken from earlier runs.`:null];return a`<h1 data-said>${op(t,e)}</h1>
${t.runs?.length?g:r}
<p class="soft">
${t.at?`The plan that ${t.at} executed, and its results at the end.`:i.filter(Boolean).join(" ")}
</p>
${t.unfinished?.state==="running"?a`<p><a href=${T("run",t.unfinished.run)}>See ${t.unfinished.run} as it goes</a></p>`:g}`}function op({at:t,totals:e,outcomes:n,unfinished:r},s){if(t)return a`${t} planned ${s===e.jobs?"all":`${L(s)} of`} ${Z(e.jobs,"job")}`;if(!s)return"Nothing needs to run";let i=r?.state==="running"?n.running:0;return i?a`${Z(i,"job")} ${i===1?"is":"are"} running, ${L(s-i)} to follow`:s===e.jobs?a`${s>1?"All ":""}${Z(s,"job")} will run`:a`${L(s)} of ${Z(e.jobs,"job")} will run`}var ds="RETRY_PREVIOUS_FAILURE";function ap(t){let e=new Map;for(let n of t)for(let[r,s]of Object.entries(n.headlines??{})){if(Xs(r)||r!==r.toUpperCase())continue;let i=e.get(r)??[r,0,[]];i[1]+=s,i[2].push(n),e.set(r,i)}return[...e.values()].sort((n,r)=>(r[0]===ds)-(n[0]===ds)||r[1]-n[1])}var lp={RETRY_PREVIOUS_FAILURE:t=>`${Z(t,"job")} failed last time`,MISSING_OUTPUT:(t,e)=>`${Z(t,"job")} ${e?"had":t===1?"has":"have"} no output`,INPUT_CHANGED:t=>t===1?"something that a job reads changed":`what ${L(t)} jobs read changed`,FORCED:t=>`you forced ${Z(t,"job")}`},cp=2;function dp(t,e,n,r){let i=(t.read("instances",{code:e,page:0}).value?.rows??[]).filter(h=>h.code===e),o=e==="MISSING_OUTPUT"&&i.every(h=>h.outcome==="never"),l=o?`${Z(n,"job")} never ran`:e==="INPUT_CHANGED"&&n===1&&i[0]?hp(t.read("why",{id:i[0].id}).value,ut(i[0].id)):lp[e]?.(n,t.state.at)??`${st(e)}: ${Z(n,"job")}`,c=o||n>12?[]:i.slice(0,cp);return a`<section class="cause" data-code=${e}>
<h2><span class="lead">Because</span> ${l}</h2>
${e===ds&&t.state.failures?.length?_o(t):c.map(h=>up(t,h,e))}
${n>c.length&&!(e===ds&&t.state.failures?.length)?a`<ul class="jobs">
${o||r.length===1||n>12?r.slice(0,12).map(h=>a`<li>
<a
class="id"
data-id=${h.count===1?h.first:h.pattern}
data-code=${e}
href=${T("why",h.count===1?h.first:h.pattern)}
>${he(h.states.planned?"planned":"reused")}${be(h.job)}</a
><span class="soft"
>${h.count>1?`${L(h.headlines[e])} of ${L(h.count)}`:g}</span
>
</li>`):i.slice(c.length,c.length+8).map(h=>a`<li>${he(h.state)}${W(h.id,{kind:!1})}</li>`)}
${n>20||r.length>12||n<=12&&n>c.length+8?a`<li><a href=${T("graph",{list:"",code:e})}>all ${L(n)}</a></li>`:g}
</ul>`:g}
</section>`}function hp(t,e){let n=t?.changes?.[0],r=n?.path??n?.new?.path??n?.old?.path,s=(t?.explain?.reasons??[]).filter(m=>m.code==="INPUT_CHANGED"),i=s.length-1,o=n?.id&&!/\.(with|env|action)/.test(n.id)?ut(n.id):null,l=n?.name??s[0]?.binding,h=!n&&s[0]?.read&&Fl(s[0],e)||r||o||(l==="action"?`the code of ${e}`:l&&`${l} of ${e}`);return h?`${h} changed${i>0?`, and ${L(i)} more`:""}`:"something that a job reads changed"}function up(t,e,n){let r=t.read("why",{id:e.id});return ve(r,s=>{let i=s.explain?.reasons??[],o=i.findIndex(l=>l.code===n);return o<0?g:a`<div class="opening">
<p class="opening-job">${pt(e.state)}${W(e.id)}</p>
${ei(i[o],{change:s.changes?.find(l=>l.reason===o),url:t.url,job:e.id,compact:!0})}
</div>`},{loading:()=>a`<p>${W(e.id)}</p>`})}function pp(t,{nodes:e,edges:n}){let r=new Set(n.filter(i=>i.from!==i.to).map(i=>i.from)),s=e.filter(i=>!r.has(i.job)).flatMap(i=>(i.shown??[]).filter(o=>o.sha256).slice(0,3)).slice(0,6);return s.length?a`<section class="section">
<h2><span>What it made</span></h2>
<ul class="made">
${s.map(i=>{let o=i.kind==="image"?t.url(i.href,i.sha256):null;return a`<li>
${o?a`<a href=${T("artifact",i.id)}
><img src=${o} alt=${i.id} decoding="async"
/></a>`:g}<span
>${W(i.id,{kind:!1})} <span class="soft">${i.type} · ${i.run}</span></span
>
</li>`})}
</ul>
</section>`:g}function fp(t,e){let n=e.map(s=>[s,Object.entries(s.headlines??{}).filter(([i])=>Xs(i)).reduce((i,[,o])=>i+o,0)]).filter(([,s])=>s);if(!n.length)return g;let r=n.reduce((s,[,i])=>s+i,0);return a`<section class="cause follows">
<h2><span class="lead">So</span> ${Z(r,"more job")} ${r===1?"follows":"follow"}</h2>
<ul class="jobs">
${n.slice(0,12).map(([s,i])=>a`<li>
<a
class="id"
data-id=${s.count===1?s.first:s.pattern}
href=${T("why",s.count===1?s.first:s.pattern)}
>${he(s.states.planned?"planned":"deferred")}${be(s.job)}</a
>
<span class="soft">${s.count>1?`${L(i)} of ${L(s.count)}`:s.action}</span>
</li>`)}
${n.length>12?a`<li class="soft">and ${L(n.length-12)} more</li>`:g}
</ul>
${t.state.at?g:a`<p class="soft note">A job is skipped after all if what it reads comes out the same.</p>`}
</section>`}function _o(t){let{state:e}=t,n=e.failures??[];if(!n.length)return g;let r=(e.failures_more??0)+Math.max(n.length-3,0);return a`<section class="failures" aria-label="Failures">
${n.slice(0,3).map(s=>Cr(s,{id:s.id,brief:!0}))}
${r?a`<p><a href=${T("graph",{list:"failed"})}>and ${Z(r,"other failure")}</a></p>`:g}
</section>`}function mp({state:t}){let e=t.inputs_changed??[];return e.length<2?g:a`<section class="section">
<h2><span>Inputs that changed</span></h2>
<ul class="jobs">
${e.slice(0,8).map(n=>a`<li>${W(n)}</li>`)}
${e.length>8?a`<li class="soft">and ${L(e.length-8)} more</li>`:g}
</ul>
</section>`}function gp(t){let{params:e}=t,n=e.list,r=n==="failed"||n==="running";return a`<p class="way"><a href=${T("graph")}>${le.back}The plan in words</a></p>
<h1>
${n?a`Jobs: ${G(n).word}`:e.code?a`Jobs: ${st(e.code)}`:"All jobs"}
</h1>
${ti(t,{state:r||!n?void 0:n,outcome:r?n:void 0,code:e.code})}`}function nc(t){let e=t.route.args[0]??t.state.runs?.filter(s=>s.mode==="run").at(-1)?.run;if(!e)return _e("There is no past plan yet.","Each run keeps the plan that it executed.");let n=t.read("plan",{run:e}),r=t.read("graph").value;return So(t,{overlay:n.value&&!n.value.pruned&&r?wp(n.value,r):null,panel:a`<p class="way"><a href=${T("graph")}>${le.back}The plan now</a></p>
${ve(n,s=>s.pruned?$p(s.pruned):bp(t,s,e))}`,label:`The plan of ${e}`,foot:a`<p class="hint">The graph as <b>${e}</b> planned it.</p>`,strip:si(t)})}function wp({states:t={}},{nodes:e}){let n={};for(let r of e)n[r.job]=t[r.job]?Vs(t[r.job]):{clean:r.count};return n}function bp(t,e,n){let{totals:r,digest:s,checked:i,problem:o,layers:l=[],removed:c=[],added:h=[],jobs:m=[]}=e,u=Object.entries(e.options??{}).filter(([,f])=>f!==null&&f!==!1&&!(Array.isArray(f)&&!f.length));return a`<article class="past" data-run=${n}>
<h1>The plan of ${n}</h1>
<p class="soft">
${L(r.planned)} of ${Z(r.jobs,"job")} planned, after ${e.log_position?.run??"nothing"} ·
<a href=${T("run",n)}>what the run did</a>
</p>
${xn(tc(r))} ${Ws(tc(r))}
${l.map(f=>({...f,jobs:f.jobs.filter(v=>v.state==="planned"||v.state==="reused")})).filter(f=>f.jobs.length).map((f,v)=>te(`Stage ${v+1}`,a`<ul class="jobs">
${f.jobs.slice(0,30).map(y=>a`<li data-id=${y.first} data-state=${y.state}>
<a class="id" href=${T("why",y.first,{at:n})}
>${he(y.state)}${y.count>1?be(y.job):be(y.first,{kind:!1})}</a
>
<span class="soft"
>${y.count>1?`${L(y.count)} · `:g}${Object.keys(y.codes).map(st).join(", ")}</span
>
</li>`)}
</ul>`,{aside:a`<span class="number">layer ${f.layer}</span>`}))}
${m.filter(f=>f.state!=="planned"&&f.state!=="reused").length?te("Not in a stage",a`<ul class="jobs">
${m.filter(f=>f.state!=="planned"&&f.state!=="reused").slice(0,30).map(f=>a`<li data-id=${f.id} data-state=${f.state}>
${he(f.state)}<a class="id" href=${T("why",f.id,{at:n})}
>${be(f.id,{kind:!1})}</a
>
<span class="soft">${G(f.state).word}</span>
</li>`)}
</ul>`):g}
${c.length?te("No longer in the workflow",a`<ul class="jobs">
${c.map(f=>a`<li>${f.replace(/^Job:/,"")}</li>`)}
</ul>`):g}
${h.length?te("Added to the workflow since",a`<ul class="jobs">
${h.map(f=>a`<li>${f.replace(/^Job:/,"")}</li>`)}
</ul>`):g}
${te("Evidence",Wt([["digest",a`<code data-digest=${s}>${s}</code>`],["checked",i?"plan.json has this digest, and the log says the same":o??"not checked"],...u.map(([f,v])=>[f,a`<code>${Array.isArray(v)?v.join(" "):String(v)}</code>`]),["estimate",e.estimate?ie(e.estimate):null]]))}
${$e(t.command(e.command))}
</article>`}var tc=({planned:t=0,reused:e=0,deferred:n=0,inactive:r=0,clean:s=0})=>({planned:t,reused:e,deferred:n,inactive:r,clean:s}),$p=t=>a`<h1>${t.run} was pruned</h1>
<p>Its plan and its evidence were removed. What remains is this record.</p>
${Wt([["mode",t.mode],["state",t.state],["started",It(t.started)],["ended",It(t.ended)],["events",L(t.events)],["pruned",It(t.pruned)]])}`;function sc(t){let{kind:e,job:n,q:r,page:s,state:i}=t.params,o=t.read("artifacts",{kind:e,job:n,q:r,state:i,page:s??0});return a`<h1>Artifacts</h1>
${ve(o,l=>a` <div class="filters wide">
<div class="tags" role="group" aria-label="Kinds">
${rc("all",!e,{kind:null,page:null})}${Object.entries(l.kinds??{}).map(([c,h])=>rc(a`${c} <span class="number">${L(h)}</span>`,e===c,{kind:c,page:null}))}
</div>
<label class="field"
><span class="sr">Filter by name</span
><input
type="text"
placeholder="Filter by name"
.value=${r??""}
@change=${c=>Ve({q:c.target.value,page:null})}
/></label>
</div>
${l.rows.length?a`${vp(t,l.rows)}${yp(l.rows)}`:_e(r||e?"No artifact fits.":"There are no artifacts yet.",r||e?"Clear the filter to see all.":"The first run makes them.")}
${bo(l)}${$e(t.command(l.command))}`)}`}var rc=(t,e,n)=>a`<button type="button" class="tag" aria-pressed=${e?"true":"false"} @click=${()=>Ve(n)}>
${t}
</button>`,ic=t=>t.kind==="image"||t.kind==="svg";function vp(t,e){let n=e.filter(r=>ic(r)&&r.href);return n.length?a`<ul class="gallery wide">
${n.map(r=>{let s=t.url(r.href,r.sha256);return a`<li data-id=${r.id} data-state=${r.state}>
<a href=${T("artifact",r.id)} title=${r.id}
>${s?a`<img src=${s} alt="" loading="lazy" decoding="async" />`:a`<span class="no-picture">not in this file</span>`}
<span class="gallery-name"
>${r.job_state&&r.job_state!=="clean"?he(r.job_state):g}<span class="id"
>${be(r.id,{kind:!1})}</span
></span
><span class="soft">${r.run} · ${Re(r.size)}</span></a
>
</li>`})}
</ul>`:g}function yp(t){let e=t.filter(n=>!(ic(n)&&n.href));return e.length?a`<div class="scroll">
<table class="table stack">
<thead>
<tr>
<th>Artifact</th>
<th>Type</th>
<th>State</th>
<th>Run</th>
<th class="num">Size</th>
<th>Content</th>
</tr>
</thead>
<tbody>
${e.map(n=>a`<tr data-id=${n.id} data-state=${n.state}>
<td class="whole">${W(n.id,{kind:!1})}</td>
<td class="soft">${n.type}</td>
<td>
${n.state==="available"?a`<span class="soft">available</span>`:a`<span class="said tone-${G(n.state).tone}"
>${he(n.state)}${G(n.state).word}</span
>`}
</td>
<td>${n.run?a`<a href=${T("run",n.run)}>${n.run}</a>`:g}</td>
<td class="num">${n.size===void 0?"":Re(n.size)}</td>
<td>
${"value"in n?a`<code>${Le(n.value,48)}</code>`:a`<code class="soft">${Ue(n.sha256)}</code>`}
</td>
</tr>`)}
</tbody>
</table>
</div>`:g}var Mo=100,hs=t=>a`<div class="json" role="group" aria-label="JSON">
${t!==null&&typeof t=="object"?a`<wr-json .value=${t} .depth=${0}></wr-json>`:ac(t)}
</div>`,ac=t=>a`<span class="json-${t===null?"null":typeof t}"
>${typeof t=="string"?JSON.stringify(t):String(t)}</span
>`,oc=t=>Array.isArray(t)&&t.length<=12&&t.every(e=>typeof e=="number"),Oo=class extends He{static properties={value:{attribute:!1},depth:{attribute:!1},name:{attribute:!1},open:{state:!0},shown:{state:!0}};createRenderRoot(){return this}constructor(){super(),this.shown=Mo}render(){let e=Array.isArray(this.value),n=e?this.value.length:Object.keys(this.value).length,r=this.open??(n<=Mo&&(this.depth<2||this.depth<5&&n<=8)),s=`${e?"list":"object"} of ${n}`;return a`<div class="json-node">
<button
type="button"
aria-expanded=${r?"true":"false"}
@click=${()=>{this.open=!r}}
>
<span class="twist" aria-hidden="true"></span
>${this.name!==void 0?a`<span class="json-key">${this.name}</span>`:g}<span class="soft"
>${s}</span
>
</button>
${r?a`<ul>
${this.entries(e).map(([i,o])=>a`<li>
${o!==null&&typeof o=="object"&&!oc(o)?a`<wr-json .name=${String(i)} .value=${o} .depth=${this.depth+1}></wr-json>`:a`<span class="json-leaf"
><span class="json-key">${i}</span>${oc(o)?a`<span class="json-number"
>${JSON.stringify(o).replaceAll(",",", ")}</span
>`:ac(o)}</span
>`}
</li>`)}
</ul>
${n>this.shown?a`<button
type="button"
class="button"
@click=${()=>{this.shown+=Mo*5}}
>
${n-this.shown} more
</button>`:g}`:g}
</div>`}entries(e){return e?this.value.slice(0,this.shown).map((n,r)=>[r,n]):Object.entries(this.value).slice(0,this.shown)}};customElements.define("wr-json",Oo);var xp=120,Ao=class extends He{static properties={network:{attribute:!1},placed:{state:!0}};createRenderRoot(){return this}async willUpdate(e){if(!e.has("network")||!this.network)return;let{nodes:n,edges:r}=this.network;if(this.placed=null,n.length>xp)return;let s=n.map(c=>({id:lc(c),width:Math.min(Math.max(lc(c).length*8+24,44),190),height:30})),i=new Set(s.map(c=>c.id)),o=r.filter(c=>i.has(c.from)&&i.has(c.to)),l=await as(s,o.map(({from:c,to:h})=>[c,h]),"LR");this.placed={result:l,lines:o,paths:Ks(o,l,"LR")}}drawing({result:e,lines:n,paths:r}){let s=kt`<marker id="net" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7"
orient="auto"><path class="arrow" d="M1 1 7 4 1 7"></path></marker>`,i=(l,c)=>kt`<path class="line" d=${l} marker-end=${n[c].directed===!1?g:"url(#net)"}></path>`,o=({id:l,x:c,y:h,width:m})=>kt`<g><rect class="net-node" x=${c-m/2} y=${h-15} width=${m} height="30" rx="8"></rect>
<text x=${c} y=${h+4} text-anchor="middle">${l.length>20?`${l.slice(0,19)}…`:l}</text></g>`;return a`<div class="scroll network" tabindex="0" role="region" aria-label="Graph">
<svg width=${e.width} height=${e.height} role="img" aria-label="Graph of ${e.nodes.length} nodes">
<defs>${s}</defs>
${r.map(i)}${e.nodes.map(o)}
</svg>
</div>`}render(){let{nodes:e,edges:n}=this.network;return a`${this.placed?this.drawing(this.placed):g}
<details>
<summary>${Z(e.length,"node")}, ${Z(n.length,"edge")}</summary>
<ul class="jobs">
${n.slice(0,200).map(r=>a`<li>${r.from} ${r.directed===!1?"—":"→"} ${r.to}</li>`)}${n.length>200?a`<li class="soft">and ${L(n.length-200)} more</li>`:g}
</ul>
</details>`}},lc=t=>String(typeof t=="object"?t.id??t.name:t);customElements.define("wr-network",Ao);var To=100;function ii(t,e){let n=e.href?t.url(e.href,e.sha256):null,r=kp[e.kind],s=e.href&&!n?a`<p class="soft">Its bytes are not in this file (${Re(e.size)}).</p>`:g;return a`<div class="preview preview-${e.kind}" data-sha256=${e.sha256??g}>
${r&&!(s!==g&&cc.has(e.kind))?r(e,n,t):cc.has(e.kind)?s:_p(e)}
${n&&t.live?a`<p class="preview-foot">
<a href=${`${n}${n.includes("?")?"&":"?"}download=1`} download>Download</a>
<span class="soft">${Re(e.size)}${e.media_type?` · ${e.media_type}`:""}</span>
</p>`:g}
</div>`}var cc=new Set(["image","svg","html","audio","video","pdf"]),kp={image:(t,e)=>a`<img class="picture" src=${e} alt=${t.id??""} decoding="async" />`,svg:(t,e)=>a`<img class="picture" src=${e} alt=${t.id??""} decoding="async" />`,html:(t,e)=>a`<iframe sandbox="" src=${e} title="${t.id??"HTML"} in a sandbox" referrerpolicy="no-referrer"></iframe>
<p class="soft">Shown in a sandbox: its scripts do not run.</p>`,pdf:t=>a`<p class="soft">A PDF of ${Re(t.size)}. Download it to read it.</p>`,audio:(t,e)=>a`<audio controls preload="metadata" src=${e}></audio>`,video:(t,e)=>a`<video controls preload="metadata" src=${e}></video>`,text:t=>a`<div class="output">
${kn(t.text??"","Copy the text")}
<pre tabindex="0" aria-label="Text">${t.text}</pre>
</div>
${Co(t)}`,json:t=>a`${hs(t.value)}${Co(t)}`,value:t=>a`<p class="value"><code>${typeof t.value=="string"?t.value:JSON.stringify(t.value)}</code></p>`,table:t=>Ep(t),graph:t=>a`<wr-network .network=${t}></wr-network>${Co(t)}`,directory:(t,e,n)=>Sp(t,n)},_p=t=>a`<p class="soft">
${Re(t.size)} of ${t.media_type??t.kind??"data"}, which the page cannot show.
<code>${Ue(t.sha256)}</code>
</p>`,Co=t=>t.truncated?a`<p class="soft">This is the beginning; the rest is not shown.</p>`:g;function Ep({columns:t=[],rows:e=[],total_rows:n}){return a`<div class="scroll" tabindex="0" role="region" aria-label="Table">
<table class="table small narrow">
<thead>
<tr>
${t.map(r=>a`<th class=${dc(r)?"num":""}>
${r.name}<span class="th-kind">${r.type}</span>
</th>`)}
</tr>
</thead>
<tbody>
${e.slice(0,To).map(r=>a`<tr>
${r.map((s,i)=>a`<td class=${dc(t[i]??{})?"num":String(s).length>40?"long":""}>
${s==null?a`<span class="soft">null</span>`:typeof s=="object"?Le(s,80):String(s)}
</td>`)}
</tr>`)}
</tbody>
</table>
</div>
<p class="soft">
${e.length<(n??e.length)||e.length>To?`the first ${L(Math.min(e.length,To))} of `:""}${Z(n??e.length,"row")},
${Z(t.length,"column")}
</p>`}var dc=({type:t=""})=>/int|float|double|decimal|number|numeric/i.test(t);function Sp({files:t=[]},e){return a`<ul class="instances">
${t.slice(0,300).map(n=>{let r=n.kind==="image"&&n.href?e.url(n.href,n.sha256):null;return a`<li>
<span></span
><span class="row-main"
><code>${be(n.path)}</code
>${r?a`<img class="thumb" src=${r} alt="" loading="lazy" />`:g}</span
><span class="row-end soft">${Re(n.size)}</span>
</li>`})}
</ul>
${t.length>300?a`<p class="soft">and ${L(t.length-300)} more files</p>`:g}`}function jr(t,{status:e,summary:n,details:r,more:s,old:i,new:o,diff:l},c,h){let[m,u]=[i,o].map(f=>f?.kind==="image"&&f.href?t.url(f.href,f.sha256):null);return a`<p data-code=${e??g}>${e?a`<b>${e}</b> `:g}${n??g}</p>
${r?.length?a`<ul class="details">
${r.slice(0,20).map(f=>a`<li>${qn(f)}</li>`)}
</ul>`:g}${s?a`<p class="soft">and ${s} more</p>`:g}
${l?.length?wo(l):m&&u?a`<wr-compare .left=${m} .right=${u} .before=${c} .after=${h}></wr-compare>`:a`<div class="columns">
${[[i,c],[o,h]].map(([f,v])=>a`<div>
<h3>${v}</h3>
${f?ii(t,f):a`<p class="soft">not there</p>`}
</div>`)}
</div>`}`}var jo=class extends He{static properties={left:{attribute:!1},right:{attribute:!1},before:{attribute:!1},after:{attribute:!1},at:{state:!0},said:{state:!0}};createRenderRoot(){return this}constructor(){super(),this.at=50,this.said=""}render(){return a`<div class="compare">
<figure>
<div class="slider" style=${We({"--at":`${this.at}%`})}>
<img src=${this.right} alt=${this.after} /><img class="over" src=${this.left} alt=${this.before} /><span
class="handle"
aria-hidden="true"
></span>
<input
type="range"
min="0"
max="100"
.value=${String(this.at)}
aria-label="How much of ${this.before}"
@input=${e=>{this.at=Number(e.target.value)}}
/>
</div>
<figcaption><span>${this.before}</span><span>${this.after}</span></figcaption>
</figure>
<figure>
<canvas class="difference" role="img" aria-label="Where the pixels differ"></canvas>
<figcaption>${this.said}</figcaption>
</figure>
</div>`}async updated(e){if(!(!e.has("left")&&!e.has("right")))try{let[n,r]=await Promise.all([this.left,this.right].map(Mp));this.difference(n,r)}catch(n){this.said=`The difference cannot be drawn: ${n.message}`}}difference(e,n){let r=this.querySelector(".difference"),[s,i]=[Math.max(e.naturalWidth,n.naturalWidth),Math.max(e.naturalHeight,n.naturalHeight)],o=Math.min(1,1600/Math.max(s,i));r.width=Math.max(Math.round(s*o),1),r.height=Math.max(Math.round(i*o),1);let[l,c]=[e,n].map(u=>{let f=new OffscreenCanvas(r.width,r.height).getContext("2d");return f.drawImage(u,0,0,u.naturalWidth*o,u.naturalHeight*o),f.getImageData(0,0,r.width,r.height)}),h=new ImageData(r.width,r.height),m=0;for(let u=0;u<h.data.length;u+=4){let f=Math.max(...[0,1,2,3].map(y=>Math.abs(l.data[u+y]-c.data[u+y])));f&&(m+=1);let v=225-(c.data[u]+c.data[u+1]+c.data[u+2])/3*.12;h.data[u]=f?220:v,h.data[u+1]=f?Math.max(20,150-f):v,h.data[u+2]=f?20:v,h.data[u+3]=255}r.getContext("2d").putImageData(h,0,0),this.said=m?`${m.toLocaleString("en-US")} pixels differ${o<1?" (of a smaller picture)":""}`:"No pixel differs"}};customElements.define("wr-compare",jo);function Mp(t){return new Promise((e,n)=>{let r=new Image;r.onload=()=>e(r),r.onerror=()=>n(new Error("a picture cannot be read")),r.src=t})}function hc(t){let e=t.route.args[0];return a`<p class="way"><a href=${T("artifacts")}>${le.back}All artifacts</a></p>
<h1 class="id-title">${be(e)}</h1>
${ve(t.read("artifact",{id:e}),n=>{let r=n.facts??{};return a`<article data-id=${e} data-state=${r.state}>
<p class="chips">
${r.job_state?pt(r.job_state):g}<span class="soft"
>${r.type}${r.size===void 0?"":` · ${Re(r.size)}`}</span
>
</p>
${n.preview?ii(t,{...n.preview,id:e}):a`<p class="soft">
${r.state==="available"?"Its content cannot be shown.":"It is not there yet."}
</p>`}
<div class="columns">
${te("Facts",Wt([["state",r.state],["made by",r.job?W(r.job):null],["in",r.run?a`<a href=${T("run",r.run)}>${r.run}</a>`:null],["path",r.path?a`<code>${r.path}</code>`:null],["sha256",r.sha256?a`<code>${r.sha256}</code>`:null],["read by",r.read_by?.length?a`${r.read_by.slice(0,12).map((s,i)=>a`${i?", ":""}${W(s)}`)}${r.read_by.length>12?` and ${r.read_by.length-12} more`:""}`:null],["where from",a`<a href=${T("lineage",e)}>back to inputs and code</a>`]]))}
${Ap(t,e,n)}
</div>
${Tp(t,e,n)}${$e(t.command(n.command))}
</article>`})}`}var Op={EXECUTES:"executed",executes:"executed"};function Ap(t,e,{versions:n}){return n?.length?te("Versions",a`<ul class="versions">
${n.map((r,s,{length:i})=>{let o=i-1,l=(r.kind==="image"||r.kind==="svg")&&r.href?t.url(r.href,r.sha256):null;return a`<li class=${r.current?"current":""}>
${l?a`<img src=${l} alt="" loading="lazy" />`:g}<span
><a href=${T("run",r.run)}>${r.run}</a> ${r.current?a`<b>${s===o?"current":"the same as now"}</b>`:g}
<span class="row-text"
>${Op[r.status]??String(r.status??"").toLowerCase()} · ${It(r.ts)} ·
<code>${Ue(r.sha256)}</code>${r.kept===!1?" · not kept":""}</span
></span
>
${!r.current&&r.kept!==!1&&n.some(c=>c.current&&c.sha256!==r.sha256)?a`<button
type="button"
class="button"
@click=${()=>Ve({old:r.sha256,new:n.find(c=>c.current)?.sha256})}
>
Compare
</button>`:g}
</li>`})}
</ul>`):g}function Tp(t,e,{versions:n}){let{old:r}=t.params,s=t.params.new;if(!r||!s)return g;let i=o=>n?.find(l=>l.sha256===o)?.run??Ue(o);return te(`${i(r)} and ${i(s)} side by side`,t.live?ve(t.read("content",{id:e,old:r,new:s}),o=>jr(t,o,i(r),i(s))):jr(t,{old:n?.find(o=>o.sha256===r),new:n?.find(o=>o.sha256===s)},i(r),i(s)))}var No=200;function uc(t){let e=t.read("runs");return a`<h1>Runs</h1>
${ve(e,n=>{let r=[...n.runs].reverse();if(!r.length)return _e("There was no run yet.",a`Start the first one with <code>whyrun run</code>.`);let s=Math.max(...r.map(i=>i.duration??0),1e-9);return a`<div class="scroll">
<table class="table stack">
<thead>
<tr>
<th>Run</th>
<th>State</th>
<th>Started</th>
<th>Steps</th>
<th class="num">Took</th>
<th><span class="sr">Compare</span></th>
</tr>
</thead>
<tbody>
${r.slice(0,No).map((i,o)=>a`<tr data-id=${i.run} data-state=${i.state}>
<td>
<a href=${T("run",i.run)}><b>${i.run}</b></a
>${i.mode==="run"?g:a` <span class="soft">${Kn[i.mode]??i.mode}</span>`}
</td>
<td>${pt(i.state)}</td>
<td title=${It(i.started)}>${kr(i.started)}</td>
<td class="whole">
${Mn(i)}${i.error?a`<span class="row-text bad">${vn(i.error)}</span>`:g}
</td>
<td class="num">
${ie(i.duration)}<meter
aria-label="share of the longest run"
min="0"
max="1"
value=${(i.duration??0)/s}
></meter>
</td>
<td>
${o<r.length-1?a`<a href=${T("diff",r[o+1].run,i.run)}>compare with ${r[o+1].run}</a>`:g}
</td>
</tr>`)}
</tbody>
</table>
</div>
${r.length>No?a`<p class="soft">and ${L(r.length-No)} earlier runs</p>`:g}
${n.pruned?.length?te("Pruned",a`<p class="soft">
${n.pruned.map((i,o)=>a`${o?", ":""}<a href=${T("plan",i.run??i)}>${i.run??i}</a>`)}
</p>`):g}
${Cp(t)}${$e(t.command(n.command))}`})}`}function Cp(t){let e=t.read("parameters").value;return!e?.columns?.length||!e.rows.length?g:te("Parameters and results",a`<div class="scroll" tabindex="0" role="region" aria-label="Parameters and results">
<table class="table small">
<thead>
<tr>
<th>Run</th>
${e.columns.map(n=>a`<th class=${n.kind==="input"?"":"num"}>
${n.name.replace(/^(Input|Artifact):/,"")}<span class="th-kind">${n.kind}</span>
</th>`)}
</tr>
</thead>
<tbody>
${[...e.rows.entries()].reverse().map(([n,r])=>a`<tr>
<td><a href=${T("run",r.run)}>${r.run}</a></td>
${r.values.map((s,i)=>a`<td
class="${e.columns[i].kind==="input"?"":"num"} ${n&&e.columns[i].kind!=="metric"&&jp(s,e.rows[n-1].values[i])?"changed":""}"
>
${s==null?"":typeof s=="string"?s:e.columns[i].kind==="metric"&&e.columns[i].name==="duration"?ie(s):typeof s=="number"&&!Number.isInteger(s)?Number(s.toPrecision(4)):Le(s,60)}
</td>`)}
</tr>`)}
</tbody>
</table>
</div>`)}var jp=(t,e)=>JSON.stringify(t)!==JSON.stringify(e);var Np=240;function pc({timeline:t,live:e},n){let r=ni(t,n),s=ri(t,r.end),i=s.length?Math.max(...s.map(o=>o.lane))+1:1;return a`<div class="timeline" tabindex="0" role="group" aria-label="Timeline">
${s.length>Np?a`<wr-timeline .steps=${s} .names=${t.steps} .scale=${r} .lanes=${i}></wr-timeline>`:a`<div class="rows" style=${We({"--lanes":i})}>
${r.gaps.map(o=>a`<span
class="gap"
title="idle for ${ie(o.seconds)}"
style=${We({left:`${o.from*100}%`,width:`${(o.to-o.from)*100}%`})}
></span>`)}
${s.map(o=>Ip(o,t,r))}
</div>`}
<div class="axis" aria-hidden="true">
${Pp(r).map(({x:o,text:l})=>a`<span style=${We({left:`${o*100}%`})}>${l}</span>`)}
</div>
</div>
${t.marks?.length?a`<p class="soft marks">${Lp(t)}</p>`:g}${t.more?a`<p class="soft">${t.more} more attempts are not drawn.</p>`:g}${e?a`<p class="soft marks">The run goes on.</p>`:g}`}function Ip(t,e,n){let r=e.steps[t.step],[s,i]=[n.at(t.start),n.at(t.end)],o=`${r}${t.attempt>1?` attempt ${t.attempt}`:""}: ${String(t.status??"running").toLowerCase()}, ${ie(t.end-t.start)}`;return a`<a
class="bit tone-${cs(t.status??"RUNNING")} ${t.retry?"retried":""} ${i-s<.025?"tiny":""}"
href=${T("why",r)}
data-id=${r}
data-code=${t.status??"RUNNING"}
title=${o}
aria-label=${o}
style=${We({left:`${s*100}%`,width:`${Math.max((i-s)*100,.25)}%`,"--lane":t.lane})}
>${i-s<.025?g:a`${ut(r)}${t.attempt>1?` #${t.attempt}`:""}`}</a
>`}function Lp({marks:t,steps:e}){let n=new Map;for(let r of t)n.has(r.status)||n.set(r.status,[]),n.get(r.status).push(e[r.step]);return[...n].map(([r,s],i)=>a`${i?" · ":""}<b>${String(r).toLowerCase()}</b>:
${s.slice(0,6).map((o,l)=>a`${l?", ":""}<a href=${T("why",o)}>${ut(o)}</a>`)}${s.length>6?` and ${s.length-6} more`:""}`)}function Pp(t){let n=Rp(t.end/6),r=[],s=-1;for(let i=0;i<=t.end*1.0001&&r.length<40;i+=n){let o=t.at(i);o-s>.08&&o<.94&&(r.push({x:o,text:ie(i)}),s=o)}return r}function Rp(t){let e=10**Math.floor(Math.log10(t));return[1,2,5,10].map(n=>n*e).find(n=>n>=t)}var Io=class extends He{static properties={steps:{attribute:!1},names:{attribute:!1},scale:{attribute:!1},lanes:{attribute:!1},hovered:{state:!0}};createRenderRoot(){return this}connectedCallback(){super.connectedCallback(),this.resizing=new ResizeObserver(()=>this.draw()),this.resizing.observe(this)}disconnectedCallback(){super.disconnectedCallback(),this.resizing.disconnect()}render(){let e=this.hovered;return a`<canvas
role="img"
aria-label="${this.steps.length} attempts in time"
@pointermove=${n=>{this.hovered=this.under(n)}}
@pointerleave=${()=>{this.hovered=null}}
@click=${n=>{let r=this.under(n);r&&(location.hash=T("why",this.names[r.step]))}}
style=${We({height:`${Math.min(Math.max(this.lanes*5,60),420)}px`})}
></canvas>
<p class="grid-says">
${e?`${this.names[e.step]}: ${ie(e.end-e.start)}`:`${this.lanes} at a time`}
</p>`}updated(){this.draw()}under(e){let n=e.currentTarget.getBoundingClientRect(),r=(e.clientX-n.left)/n.width,s=Math.floor((e.clientY-n.top)/n.height*this.lanes);return this.steps.find(i=>i.lane===s&&this.scale.at(i.start)<=r&&this.scale.at(i.end)>=r)??null}draw(){let e=this.querySelector("canvas");if(!e)return;let n=devicePixelRatio||1;e.width=e.clientWidth*n,e.height=e.clientHeight*n;let r=e.getContext("2d"),s=e.height/this.lanes,i=document.createElement("span");this.append(i);let o=new Map;for(let l of this.steps){let c=cs(l.status??"RUNNING");o.has(c)||(i.style.color=`var(--${c}-cell)`,o.set(c,getComputedStyle(i).color)),r.fillStyle=o.get(c);let h=this.scale.at(l.start)*e.width;r.fillRect(h,l.lane*s,Math.max(this.scale.at(l.end)*e.width-h,1),Math.max(s-(s>3?1:0),1))}i.remove()}};customElements.define("wr-timeline",Io);var oi=50,fc=3,Dp=12;function mc(t){let e=t.route.args[0],n=t.read("run",{id:e});return n.error?a`<p class="way"><a href=${T("runs")}>${le.back}All runs</a></p>
<h1>${e}</h1>
${Gn(n.error)}`:ve(n,r=>{let s=r.facts??{},i=t.state.runs?.find(c=>c.run===e)??s,o=r.live?"running":s.state??i.state,l=r.live&&t.live&&s.started?(Date.now()-Date.parse(s.started))/1e3:void 0;return a`<p class="way">
<a href=${T("runs")}>${le.back}All runs</a
><span class="links"
>${s.mode==="run"||s.mode===void 0?a`<a href=${T("plan",e)}>Its plan</a>`:g}</span
>
</p>
<h1>${e} ${pt(o)}</h1>
<p class="soft">
${Mn(i)} ·
${s.duration!==void 0&&s.duration!==null?`took ${ie(s.duration)} · `:g}<span
title=${It(s.started)}
>${kr(s.started)}</span
>${s.backend?` · ${s.backend}`:g}
</p>
${r.live&&r.progress?Up(r.progress,l):g} ${zp(r)}
${r.timeline?.steps?.length?te("When",pc(r,l),{aside:a`<span class="number">${Z(r.timeline.step.length,"attempt")}</span>`}):g}
${Wp(r)}
<div class="columns">${Vp(r)}${Fp(r)}</div>
${te("Where and with what",Wt([["started",It(s.started)],["ended",It(s.ended)],["backend",s.backend],["host",r.host],["whyrun",r.engine_version],["processor",ie(r.usage?.cpu_seconds)],["peak memory",Re(r.usage?.max_rss_bytes)],["cost",r.usage?.cost??null],...Object.entries(r.environment??{}).map(([c,h])=>[c,typeof h=="string"?h:JSON.stringify(h)])]))}
${Bp(t,r)}${qp(r)}
${r.sources?.length?te("The workflow as it was",r.sources.map(c=>a`<details>
<summary>
<code>${c.path}</code>
<span class="soft"
>${Z((c.text??"").split(`
`).length,"line")}${c.truncated?", cut":""}</span
>
</summary>
<div class="output"><pre tabindex="0" aria-label=${c.path}>${c.text}</pre></div>
</details>`)):g}
${$e(t.command(r.command))}`})}function zp({failures:t=[]}){let e=t.slice(0,fc),n=t.slice(fc,oi),r=t.length===1;return a`${e.map(s=>Cr(s,{id:s.id,brief:!0,open:r}))}
${n.length?a`<ul class="instances more-failures">
${n.map(Hp)}
</ul>`:g}
${t.length>oi?a`<p class="soft">and ${Z(t.length-oi,"more failure")}</p>`:g}`}var Hp=t=>a`<li data-id=${t.id} data-code=${t.status}>
<span class="mark">${he("failed")}</span>
<span class="row-main"
>${W(t.id,{kind:!1})}<span class="row-text bad">${vn(t.error)}</span></span
>
</li>`,Up=({ended:t,planned:e,done:n,left:r,elapsed:s},i)=>a`<div class="progress">
<progress max="1" value=${n??t/Math.max(e,1)} aria-label="Progress"></progress>
<span
>${L(t)} of ${L(e)} · ${ie(i??s)} so
far${r==null?"":` · about ${ie(r)} left`}</span
>
</div>`;function Vp({by_job:t}){if(!t?.length)return g;let e=Math.max(...t.map(r=>r.seconds??0),1e-9),n=t.some(r=>r.cost!==null&&r.cost!==void 0);return te("By job",a`<div class="scroll">
<table class="table small fit">
<thead>
<tr>
<th>Job</th>
<th class="num">Steps</th>
<th class="num">Time</th>
<th class="num">Processor</th>
<th class="num">Memory</th>
${n?a`<th class="num">Cost</th>`:g}
</tr>
</thead>
<tbody>
${t.slice(0,oi).map(r=>a`<tr>
<td>
${W(`Job:${r.job}`,{kind:!1,href:T("why",r.steps>1?`Job:${r.job}[*]`:`Job:${r.job}`)})}${r.failed?a` <span class="bad">${L(r.failed)} failed</span>`:g}
</td>
<td class="num">${L(r.steps)}</td>
<td class="num">
${ie(r.seconds)}<meter
aria-label="share of the slowest job"
min="0"
max="1"
value=${(r.seconds??0)/e}
></meter>
</td>
<td class="num">${ie(r.cpu_seconds)}</td>
<td class="num">${Re(r.max_rss_bytes)}</td>
${n?a`<td class="num">${r.cost??"–"}</td>`:g}
</tr>`)}
</tbody>
</table>
</div>`)}function Fp({slowest:t,most_expensive:e}){if(!t?.length)return g;let n=(r,s,i)=>te(r,a`<ol class="ranked">
${s.slice(0,8).map(o=>a`<li>${W(o.id,{kind:!1})}<span class="num soft">${i(o)}</span></li>`)}
</ol>`);return a`<div>
${n("Slowest",t,r=>ie(r.seconds))}${e?.length?n("Most expensive",e,r=>r.cost):g}
</div>`}function Wp({comparisons:t}){if(!t?.length)return g;let e=[...t.reduce((n,r)=>n.set(r.status,(n.get(r.status)??0)+1),new Map)];return te("Compared",a`<p class="verdict">
${e.map(([n,r],s)=>a`${s?", ":""}<b data-differs=${n} data-count=${r}
>${L(r)} ${n.toLowerCase().replaceAll("_"," ")}</b
>`)}
</p>
<ul class="instances">
${t.slice(0,200).map(n=>a`<li data-id=${n.artifact} data-code=${n.status}>
<span></span
><span class="row-main"
><a class="id" href=${yn(n.artifact)}>${ut(n.artifact)}</a>
<span class="row-text"><b>${n.status}</b> with ${n.against} ${n.summary??""}</span
>${(n.details??[]).slice(0,5).map(r=>a`<span class="row-text">${r}</span>`)}</span
><span></span>
</li>`)}
</ul>`)}function Bp(t,e){let n=t.ui.lines.filter(s=>s.id?.startsWith(`${e.id}:`)).slice(-Dp);if(!e.live||!n.length)return g;let r=({ts:s,event:i,step_id:o,text:l})=>[String(s).slice(11,19),i,o,l].filter(Boolean).join(" ");return te("As it happens",a`<div class="output log">
<pre tabindex="0" aria-label="Events">${n.map(s=>r(s.data)).join(`
`)}</pre>
</div>`)}function qp(t){let e=t.log?.lines??[];return e.length?te("The last lines of the log",a`<div class="output log"><pre tabindex="0" aria-label="Log">${e.join(`
`)}</pre></div>
${t.log?.more?a`<p class="soft">${L(t.log.more)} lines before these</p>`:g}`):g}var Yp="uplot",Gp="u-hz",Jp="u-vt",Kp="u-title",Zp="u-wrap",Qp="u-under",Xp="u-over",ef="u-axis",Xn="u-off",tf="u-select",nf="u-cursor-x",rf="u-cursor-y",sf="u-cursor-pt",of="u-legend",af="u-live",lf="u-inline",cf="u-series",df="u-marker",gc="u-label",hf="u-value",ps="width",fs="height";var wc="bottom",Nr="left",Lo="right",Qo="#000",bc=Qo+"0",Po="mousemove",$c="mousedown",Ro="mouseup",vc="mouseenter",yc="mouseleave",xc="dblclick",uf="resize",pf="scroll",kc="change",hi="dppxchange",Xo="--",Hr=typeof window<"u",Vo=Hr?document:null,Lr=Hr?window:null,ff=Hr?navigator:null,ge,ai;function Fo(){let t=devicePixelRatio;ge!=t&&(ge=t,ai&&Bo(kc,ai,Fo),ai=matchMedia(`(min-resolution: ${ge-.001}dppx) and (max-resolution: ${ge+.001}dppx)`),er(kc,ai,Fo),Lr.dispatchEvent(new CustomEvent(hi)))}function _t(t,e){if(e!=null){let n=t.classList;!n.contains(e)&&n.add(e)}}function Wo(t,e){let n=t.classList;n.contains(e)&&n.remove(e)}function Ce(t,e,n){t.style[e]=n+"px"}function Bt(t,e,n,r){let s=Vo.createElement(t);return e!=null&&_t(s,e),n?.insertBefore(s,r),s}function Lt(t,e){return Bt("div",t,e)}var _c=new WeakMap;function nn(t,e,n,r,s){let i="translate("+e+"px,"+n+"px)",o=_c.get(t);i!=o&&(t.style.transform=i,_c.set(t,i),e<0||n<0||e>r||n>s?_t(t,Xn):Wo(t,Xn))}var Ec=new WeakMap;function Sc(t,e,n){let r=e+n,s=Ec.get(t);r!=s&&(Ec.set(t,r),t.style.background=e,t.style.borderColor=n)}var Mc=new WeakMap;function Oc(t,e,n,r){let s=e+""+n,i=Mc.get(t);s!=i&&(Mc.set(t,s),t.style.height=n+"px",t.style.width=e+"px",t.style.marginLeft=r?-e/2+"px":0,t.style.marginTop=r?-n/2+"px":0)}var ea={passive:!0},mf={...ea,capture:!0};function er(t,e,n,r){e.addEventListener(t,n,r?mf:ea)}function Bo(t,e,n,r){e.removeEventListener(t,n,ea)}Hr&&Fo();function qt(t,e,n,r){let s;n=n||0,r=r||e.length-1;let i=r<=2147483647;for(;r-n>1;)s=i?n+r>>1:Et((n+r)/2),e[s]<t?n=s:r=s;return t-e[n]<=e[r]-t?n:r}function nd(t){return(n,r,s)=>{let i=-1,o=-1;for(let l=r;l<=s;l++)if(t(n[l])){i=l;break}for(let l=s;l>=r;l--)if(t(n[l])){o=l;break}return[i,o]}}var rd=t=>t!=null,sd=t=>t!=null&&t>0,fi=nd(rd),gf=nd(sd);function wf(t,e,n,r=0,s=!1){let i=s?gf:fi,o=s?sd:rd;[e,n]=i(t,e,n);let l=t[e],c=t[e];if(e>-1)if(r==1)l=t[e],c=t[n];else if(r==-1)l=t[n],c=t[e];else for(let h=e;h<=n;h++){let m=t[h];o(m)&&(m<l?l=m:m>c&&(c=m))}return[l??Ee,c??-Ee]}function mi(t,e,n,r){let s=Cc(t),i=Cc(e);t==e&&(s==-1?(t*=n,e/=n):(t/=n,e*=n));let o=n==10?dn:id,l=s==1?Et:Pt,c=i==1?Pt:Et,h=l(o(Je(t))),m=c(o(Je(e))),u=Pr(n,h),f=Pr(n,m);return n==10&&(h<0&&(u=Se(u,-h)),m<0&&(f=Se(f,-m))),r||n==2?(t=u*s,e=f*i):(t=cd(t,u),e=gi(e,f)),[t,e]}function ta(t,e,n,r){let s=mi(t,e,n,r);return t==0&&(s[0]=0),e==0&&(s[1]=0),s}var na=.1,Ac={mode:3,pad:na},gs={pad:0,soft:null,mode:0},bf={min:gs,max:gs};function ui(t,e,n,r){return wi(n)?Tc(t,e,n):(gs.pad=n,gs.soft=r?0:null,gs.mode=r?3:0,Tc(t,e,bf))}function fe(t,e){return t??e}function $f(t,e,n){for(e=fe(e,0),n=fe(n,t.length-1);e<=n;){if(t[e]!=null)return!0;e++}return!1}function Tc(t,e,n){let r=n.min,s=n.max,i=fe(r.pad,0),o=fe(s.pad,0),l=fe(r.hard,-Ee),c=fe(s.hard,Ee),h=fe(r.soft,Ee),m=fe(s.soft,-Ee),u=fe(r.mode,0),f=fe(s.mode,0),v=e-t,y=dn(v),k=ft(Je(t),Je(e)),S=dn(k),A=Je(S-y);(v<1e-24||A>10)&&(v=0,(t==0||e==0)&&(v=1e-24,u==2&&h!=Ee&&(i=0),f==2&&m!=-Ee&&(o=0)));let _=v||k||1e3,N=dn(_),M=Pr(10,Et(N)),P=_*(v==0?t==0?.1:1:i),C=Se(cd(t-P,M/10),24),K=t>=h&&(u==1||u==3&&C<=h||u==2&&C>=h)?h:Ee,q=ft(l,C<K&&t>=K?K:Yt(K,C)),re=_*(v==0?e==0?.1:1:o),Q=Se(gi(e+re,M/10),24),I=e<=m&&(f==1||f==3&&Q>=m||f==2&&Q<=m)?m:-Ee,ne=Yt(c,Q>I&&e<=I?I:ft(I,Q));return q==ne&&q==0&&(ne=100),[q,ne]}var vf=new Intl.NumberFormat(Hr?ff.language:"en-US"),ra=t=>vf.format(t),St=Math,di=St.PI,Je=St.abs,Et=St.floor,Ge=St.round,Pt=St.ceil,Yt=St.min,ft=St.max,Pr=St.pow,Cc=St.sign,dn=St.log10,id=St.log2,yf=(t,e=1)=>St.sinh(t)*e,Do=(t,e=1)=>St.asinh(t/e),Ee=1/0;function jc(t){return(dn((t^t>>31)-(t>>31))|0)+1}function qo(t,e,n){return Yt(ft(t,e),n)}function od(t){return typeof t=="function"}function ce(t){return od(t)?t:()=>t}var xf=()=>{},ad=t=>t,ld=(t,e)=>e,kf=t=>null,Nc=t=>!0,Ic=(t,e)=>t==e,_f=/\.\d*?(?=9{6,}|0{6,})/gm,tr=t=>{if(hd(t)||An.has(t))return t;let e=`${t}`,n=e.match(_f);if(n==null)return t;let r=n[0].length-1;if(e.indexOf("e-")!=-1){let[s,i]=e.split("e");return+`${tr(s)}e${i}`}return Se(t,r)};function Zn(t,e){return tr(Se(tr(t/e))*e)}function gi(t,e){return tr(Pt(tr(t/e))*e)}function cd(t,e){return tr(Et(tr(t/e))*e)}function Se(t,e=0){if(hd(t))return t;let n=10**e,r=t*n*(1+Number.EPSILON);return Ge(r)/n}var An=new Map;function dd(t){return((""+t).split(".")[1]||"").length}function bs(t,e,n,r){let s=[],i=r.map(dd);for(let o=e;o<n;o++){let l=Je(o),c=Se(Pr(t,o),l);for(let h=0;h<r.length;h++){let m=t==10?+`${r[h]}e${o}`:r[h]*c,u=(o>=0?0:l)+(o>=i[h]?0:i[h]),f=t==10?m:Se(m,u);s.push(f),An.set(f,u)}}return s}var ws={},sa=[],Rr=[null,null],On=Array.isArray,hd=Number.isInteger,Ef=t=>t===void 0;function Lc(t){return typeof t=="string"}function wi(t){let e=!1;if(t!=null){let n=t.constructor;e=n==null||n==Object}return e}function Sf(t){return t!=null&&typeof t=="object"}var Mf=Object.getPrototypeOf(Uint8Array),ud="__proto__";function Dr(t,e=wi){let n;if(On(t)){let r=t.find(s=>s!=null);if(On(r)||e(r)){n=Array(t.length);for(let s=0;s<t.length;s++)n[s]=Dr(t[s],e)}else n=t.slice()}else if(t instanceof Mf)n=t.slice();else if(e(t)){n={};for(let r in t)r!=ud&&(n[r]=Dr(t[r],e))}else n=t;return n}function Be(t){let e=arguments;for(let n=1;n<e.length;n++){let r=e[n];for(let s in r)s!=ud&&(wi(t[s])?Be(t[s],Dr(r[s])):t[s]=Dr(r[s]))}return t}var Of=0,Af=1,Tf=2;function Cf(t,e,n){for(let r=0,s,i=-1;r<e.length;r++){let o=e[r];if(o>i){for(s=o-1;s>=0&&t[s]==null;)t[s--]=null;for(s=o+1;s<n&&t[s]==null;)t[i=s++]=null}}}function jf(t,e){if(Lf(t)){let o=t[0].slice();for(let l=1;l<t.length;l++)o.push(...t[l].slice(1));return Pf(o[0])||(o=If(o)),o}let n=new Set;for(let o=0;o<t.length;o++){let c=t[o][0],h=c.length;for(let m=0;m<h;m++)n.add(c[m])}let r=[Array.from(n).sort((o,l)=>o-l)],s=r[0].length,i=new Map;for(let o=0;o<s;o++)i.set(r[0][o],o);for(let o=0;o<t.length;o++){let l=t[o],c=l[0];for(let h=1;h<l.length;h++){let m=l[h],u=Array(s).fill(void 0),f=e?e[o][h]:Af,v=[];for(let y=0;y<m.length;y++){let k=m[y],S=i.get(c[y]);k===null?f!=Of&&(u[S]=k,f==Tf&&v.push(S)):u[S]=k}Cf(u,v,s),r.push(u)}}return r}var Nf=typeof queueMicrotask>"u"?t=>Promise.resolve().then(t):queueMicrotask;function If(t){let e=t[0],n=e.length,r=Array(n);for(let i=0;i<r.length;i++)r[i]=i;r.sort((i,o)=>e[i]-e[o]);let s=[];for(let i=0;i<t.length;i++){let o=t[i],l=Array(n);for(let c=0;c<n;c++)l[c]=o[r[c]];s.push(l)}return s}function Lf(t){let e=t[0][0],n=e.length;for(let r=1;r<t.length;r++){let s=t[r][0];if(s.length!=n)return!1;if(s!=e){for(let i=0;i<n;i++)if(s[i]!=e[i])return!1}}return!0}function Pf(t,e=100){let n=t.length;if(n<=1)return!0;let r=0,s=n-1;for(;r<=s&&t[r]==null;)r++;for(;s>=r&&t[s]==null;)s--;if(s<=r)return!0;let i=ft(1,Et((s-r+1)/e));for(let o=t[r],l=r+i;l<=s;l+=i){let c=t[l];if(c!=null){if(c<=o)return!1;o=c}}return!0}var pd=["January","February","March","April","May","June","July","August","September","October","November","December"],fd=["Sunday","Monday","Tuesday","Wednesday","Thursday","Friday","Saturday"];function md(t){return t.slice(0,3)}var Rf=fd.map(md),Df=pd.map(md),zf={MMMM:pd,MMM:Df,WWWW:fd,WWW:Rf};function us(t){return(t<10?"0":"")+t}function Hf(t){return(t<10?"00":t<100?"0":"")+t}var Uf={YYYY:t=>t.getFullYear(),YY:t=>(t.getFullYear()+"").slice(2),MMMM:(t,e)=>e.MMMM[t.getMonth()],MMM:(t,e)=>e.MMM[t.getMonth()],MM:t=>us(t.getMonth()+1),M:t=>t.getMonth()+1,DD:t=>us(t.getDate()),D:t=>t.getDate(),WWWW:(t,e)=>e.WWWW[t.getDay()],WWW:(t,e)=>e.WWW[t.getDay()],HH:t=>us(t.getHours()),H:t=>t.getHours(),h:t=>{let e=t.getHours();return e==0?12:e>12?e-12:e},AA:t=>t.getHours()>=12?"PM":"AM",aa:t=>t.getHours()>=12?"pm":"am",a:t=>t.getHours()>=12?"p":"a",mm:t=>us(t.getMinutes()),m:t=>t.getMinutes(),ss:t=>us(t.getSeconds()),s:t=>t.getSeconds(),fff:t=>Hf(t.getMilliseconds())};function ia(t,e){e=e||zf;let n=[],r=/\{([a-z]+)\}|[^{]+/gi,s;for(;s=r.exec(t);)n.push(s[0][0]=="{"?Uf[s[1]]:s[0]);return i=>{let o="";for(let l=0;l<n.length;l++)o+=typeof n[l]=="string"?n[l]:n[l](i,e);return o}}var Vf=new Intl.DateTimeFormat().resolvedOptions().timeZone;function Ff(t,e){let n;return e=="UTC"||e=="Etc/UTC"?n=new Date(+t+t.getTimezoneOffset()*6e4):e==Vf?n=t:(n=new Date(t.toLocaleString("en-US",{timeZone:e})),n.setMilliseconds(t.getMilliseconds())),n}var gd=t=>t%1==0,pi=[1,2,2.5,5],Wf=bs(10,-32,0,pi),wd=bs(10,0,32,pi),Bf=wd.filter(gd),Qn=Wf.concat(wd),oa=`
`,bd="{YYYY}",Pc=oa+bd,$d="{M}/{D}",ms=oa+$d,li=ms+"/{YY}",vd="{aa}",qf="{h}:{mm}",Ir=qf+vd,Rc=oa+Ir,Dc=":{ss}",ye=null;function yd(t){let e=t*1e3,n=e*60,r=n*60,s=r*24,i=s*30,o=s*365,c=(t==1?bs(10,0,3,pi).filter(gd):bs(10,-3,0,pi)).concat([e,e*5,e*10,e*15,e*30,n,n*5,n*10,n*15,n*30,r,r*2,r*3,r*4,r*6,r*8,r*12,s,s*2,s*3,s*4,s*5,s*6,s*7,s*8,s*9,s*10,s*15,i,i*2,i*3,i*4,i*6,o,o*2,o*5,o*10,o*25,o*50,o*100]),h=[[o,bd,ye,ye,ye,ye,ye,ye,1],[s*28,"{MMM}",Pc,ye,ye,ye,ye,ye,1],[s,$d,Pc,ye,ye,ye,ye,ye,1],[r,"{h}"+vd,li,ye,ms,ye,ye,ye,1],[n,Ir,li,ye,ms,ye,ye,ye,1],[e,Dc,li+" "+Ir,ye,ms+" "+Ir,ye,Rc,ye,1],[t,Dc+".{fff}",li+" "+Ir,ye,ms+" "+Ir,ye,Rc,ye,1]];function m(u){return(f,v,y,k,S,A)=>{let _=[],N=S>=o,M=S>=i&&S<o,P=u(y),C=Se(P*t,3),K=zo(P.getFullYear(),N?0:P.getMonth(),M||N?1:P.getDate()),q=Se(K*t,3);if(M||N){let re=M?S/i:0,Q=N?S/o:0,I=C==q?C:Se(zo(K.getFullYear()+Q,K.getMonth()+re,1)*t,3),ne=new Date(Ge(I/t)),U=ne.getFullYear(),X=ne.getMonth();for(let Y=0;I<=k;Y++){let de=zo(U+Q*Y,X+re*Y,1),B=de-u(Se(de*t,3));I=Se((+de+B)*t,3),I<=k&&_.push(I)}}else{let re=S>=s?s:S,Q=Et(y)-Et(C),I=q+Q+gi(C-q,re);_.push(I);let ne=u(I),U=ne.getHours()+ne.getMinutes()/n+ne.getSeconds()/r,X=S/r,Y=f.axes[v]._space,de=A/Y;for(;I=Se(I+S,t==1?0:3),!(I>k);)if(X>1){let B=Et(Se(U+X,6))%24,ue=u(I).getHours()-B;ue>1&&(ue=-1),I-=ue*r,U=(U+X)%24;let xe=_[_.length-1];Se((I-xe)/S,3)*de>=.7&&_.push(I)}else _.push(I)}return _}}return[c,h,m]}var[Yf,Gf,Jf]=yd(1),[Kf,Zf,Qf]=yd(.001);bs(2,-53,53,[1]);function zc(t,e){return t.map(n=>n.map((r,s)=>s==0||s==8||r==null?r:e(s==1||n[8]==0?r:n[1]+r)))}function Hc(t,e){return(n,r,s,i,o)=>{let l=e.find(y=>o>=y[0])||e[e.length-1],c,h,m,u,f,v;return r.map(y=>{let k=t(y),S=k.getFullYear(),A=k.getMonth(),_=k.getDate(),N=k.getHours(),M=k.getMinutes(),P=k.getSeconds(),C=S!=c&&l[2]||A!=h&&l[3]||_!=m&&l[4]||N!=u&&l[5]||M!=f&&l[6]||P!=v&&l[7]||l[1];return c=S,h=A,m=_,u=N,f=M,v=P,C(k)})}}function Xf(t,e){let n=ia(e);return(r,s,i,o,l)=>s.map(c=>n(t(c)))}function zo(t,e,n){return new Date(t,e,n)}function Uc(t,e){return e(t)}var em="{YYYY}-{MM}-{DD} {h}:{mm}{aa}";function Vc(t,e){return(n,r,s,i)=>i==null?Xo:e(t(r))}function tm(t,e){let n=t.series[e];return n.width?n.stroke(t,e):n.points.width?n.points.stroke(t,e):null}function nm(t,e){return t.series[e].fill(t,e)}var rm={show:!0,live:!0,isolate:!1,mount:xf,markers:{show:!0,width:2,stroke:tm,fill:nm,dash:"solid"},idx:null,idxs:null,values:[]};function sm(t,e){let n=t.cursor.points,r=Lt(),s=n.size(t,e);Ce(r,ps,s),Ce(r,fs,s);let i=s/-2;Ce(r,"marginLeft",i),Ce(r,"marginTop",i);let o=n.width(t,e,s);return o&&Ce(r,"borderWidth",o),r}function im(t,e){let n=t.series[e].points;return n._fill||n._stroke}function om(t,e){let n=t.series[e].points;return n._stroke||n._fill}function am(t,e){return t.series[e].points.size}var Ho=[0,0];function lm(t,e,n){return Ho[0]=e,Ho[1]=n,Ho}function ci(t,e,n,r=!0){return s=>{s.button==0&&(!r||s.target==e)&&n(s)}}function Uo(t,e,n,r=!0){return s=>{(!r||s.target==e)&&n(s)}}var cm={show:!0,x:!0,y:!0,lock:!1,move:lm,points:{one:!1,show:sm,size:am,width:0,stroke:om,fill:im},bind:{mousedown:ci,mouseup:ci,click:ci,dblclick:ci,mousemove:Uo,mouseleave:Uo,mouseenter:Uo},drag:{setScale:!0,x:!0,y:!1,dist:0,uni:null,click:(t,e)=>{e.stopPropagation(),e.stopImmediatePropagation()},_x:!1,_y:!1},focus:{dist:(t,e,n,r,s)=>r-s,prox:-1,bias:0},hover:{skip:[void 0],prox:null,bias:0},left:-10,top:-10,idx:null,dataIdx:null,idxs:null,event:null},xd={show:!0,stroke:"rgba(0,0,0,0.07)",width:2},aa=Be({},xd,{filter:ld}),kd=Be({},aa,{size:10}),_d=Be({},xd,{show:!1}),la='12px system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, "Noto Sans", sans-serif, "Apple Color Emoji", "Segoe UI Emoji", "Segoe UI Symbol", "Noto Color Emoji"',Ed="bold "+la,Sd=1.5,Fc={show:!0,scale:"x",stroke:Qo,space:50,gap:5,alignTo:1,size:50,labelGap:0,labelSize:30,labelFont:Ed,side:2,grid:aa,ticks:kd,border:_d,font:la,lineGap:Sd,rotate:0},dm="Value",hm="Time",Wc={show:!0,scale:"x",auto:!1,sorted:1,min:Ee,max:-Ee,idxs:[]};function um(t,e,n,r,s){return e.map(i=>i==null?"":ra(i))}function pm(t,e,n,r,s,i,o){let l=[],c=An.get(s)||0;n=o?n:Se(gi(n,s),c);for(let h=n;h<=r;h=Se(h+s,c))l.push(Object.is(h,-0)?0:h);return l}function Yo(t,e,n,r,s,i,o){let l=[],c=t.scales[t.axes[e].scale].log,h=c==10?dn:id,m=Et(h(n));s=Pr(c,m),c==10&&(s=Qn[qt(s,Qn)]);let u=n,f=s*c;c==10&&(f=Qn[qt(f,Qn)]);do l.push(u),u=u+s,c==10&&!An.has(u)&&(u=Se(u,An.get(s))),u>=f&&(s=u,f=s*c,c==10&&(f=Qn[qt(f,Qn)]));while(u<=r);return l}function fm(t,e,n,r,s,i,o){let c=t.scales[t.axes[e].scale].asinh,h=r>c?Yo(t,e,ft(c,n),r,s):[c],m=r>=0&&n<=0?[0]:[];return(n<-c?Yo(t,e,ft(c,-r),-n,s):[c]).reverse().map(f=>-f).concat(m,h)}var Md=/./,mm=/[12357]/,gm=/[125]/,Bc=/1/,Go=(t,e,n,r)=>t.map((s,i)=>e==4&&s==0||i%r==0&&n.test(s.toExponential()[s<0?1:0])?s:null);function wm(t,e,n,r,s){let i=t.axes[n],o=i.scale,l=t.scales[o],c=t.valToPos,h=i._space,m=c(10,o),u=c(9,o)-m>=h?Md:c(7,o)-m>=h?mm:c(5,o)-m>=h?gm:Bc;if(u==Bc){let f=Je(c(1,o)-m);if(f<h)return Go(e.slice().reverse(),l.distr,u,Pt(h/f)).reverse()}return Go(e,l.distr,u,1)}function bm(t,e,n,r,s){let i=t.axes[n],o=i.scale,l=i._space,c=t.valToPos,h=Je(c(1,o)-c(2,o));return h<l?Go(e.slice().reverse(),3,Md,Pt(l/h)).reverse():e}function $m(t,e,n,r){return r==null?Xo:e==null?"":ra(e)}var qc={show:!0,scale:"y",stroke:Qo,space:30,gap:5,alignTo:1,size:50,labelGap:0,labelSize:30,labelFont:Ed,side:3,grid:aa,ticks:kd,border:_d,font:la,lineGap:Sd,rotate:0};function vm(t,e){let n=3+(t||1)*2;return Se(n*e,3)}function ym(t,e){let{scale:n,idxs:r}=t.series[0],s=t._data[0],i=t.valToPos(s[r[0]],n,!0),o=t.valToPos(s[r[1]],n,!0),l=Je(o-i),c=t.series[e],h=l/(c.points.space*ge);return r[1]-r[0]<=h}var Yc={scale:null,auto:!0,sorted:0,min:Ee,max:-Ee},Od=(t,e,n,r,s)=>s,Gc={show:!0,auto:!0,sorted:0,gaps:Od,alpha:1,facets:[Be({},Yc,{scale:"x"}),Be({},Yc,{scale:"y"})]},Jc={scale:"y",auto:!0,sorted:0,show:!0,spanGaps:!1,gaps:Od,alpha:1,points:{show:ym,filter:null},values:null,min:Ee,max:-Ee,idxs:[],path:null,clip:null};function xm(t,e,n,r,s){return n/10}var Ad={time:!0,auto:!0,distr:1,log:10,asinh:1,min:null,max:null,dir:1,ori:0},km=Be({},Ad,{time:!1,ori:1}),Kc={};function Td(t,e){let n=Kc[t];return n||(n={key:t,plots:[],sub(r){n.plots.push(r)},unsub(r){n.plots=n.plots.filter(s=>s!=r)},pub(r,s,i,o,l,c,h){for(let m=0;m<n.plots.length;m++)n.plots[m]!=s&&n.plots[m].pub(r,s,i,o,l,c,h)}},t!=null&&(Kc[t]=n)),n}var zr=1,Jo=2;function nr(t,e,n){let r=t.mode,s=t.series[e],i=r==2?t._data[e]:t._data,o=t.scales,l=t.bbox,c=i[0],h=r==2?i[1]:i[e],m=r==2?o[s.facets[0].scale]:o[t.series[0].scale],u=r==2?o[s.facets[1].scale]:o[s.scale],f=l.left,v=l.top,y=l.width,k=l.height,S=t.valToPosH,A=t.valToPosV;return m.ori==0?n(s,c,h,m,u,S,A,f,v,y,k,$i,Ur,yi,jd,Id):n(s,c,h,m,u,A,S,v,f,k,y,vi,Vr,ha,Nd,Ld)}function ca(t,e){let n=0,r=0,s=fe(t.bands,sa);for(let i=0;i<s.length;i++){let o=s[i];o.series[0]==e?n=o.dir:o.series[1]==e&&(o.dir==1?r|=1:r|=2)}return[n,r==1?-1:r==2?1:r==3?2:0]}function _m(t,e,n,r,s){let i=t.mode,o=t.series[e],l=i==2?o.facets[1].scale:o.scale,c=t.scales[l];return s==-1?c.min:s==1?c.max:c.distr==3?c.dir==1?c.min:c.max:0}function hn(t,e,n,r,s,i){return nr(t,e,(o,l,c,h,m,u,f,v,y,k,S)=>{let A=o.pxRound,_=h.dir*(h.ori==0?1:-1),N=h.ori==0?Ur:Vr,M,P;_==1?(M=n,P=r):(M=r,P=n);let C=A(u(l[M],h,k,v)),K=A(f(c[M],m,S,y)),q=A(u(l[P],h,k,v)),re=A(f(i==1?m.max:m.min,m,S,y)),Q=new Path2D(s);return N(Q,q,re),N(Q,C,re),N(Q,C,K),Q})}function bi(t,e,n,r,s,i){let o=null;if(t.length>0){o=new Path2D;let l=e==0?yi:ha,c=n;for(let u=0;u<t.length;u++){let f=t[u];if(f[1]>f[0]){let v=f[0]-c;v>0&&l(o,c,r,v,r+i),c=f[1]}}let h=n+s-c,m=10;h>0&&l(o,c,r-m/2,h,r+i+m)}return o}function Em(t,e,n){let r=t[t.length-1];r&&r[0]==e?r[1]=n:t.push([e,n])}function da(t,e,n,r,s,i,o){let l=[],c=t.length;for(let h=s==1?n:r;h>=n&&h<=r;h+=s)if(e[h]===null){let u=h,f=h;if(s==1)for(;++h<=r&&e[h]===null;)f=h;else for(;--h>=n&&e[h]===null;)f=h;let v=i(t[u]),y=f==u?v:i(t[f]),k=u-s;v=o<=0&&k>=0&&k<c?i(t[k]):v;let A=f+s;y=o>=0&&A>=0&&A<c?i(t[A]):y,y>=v&&l.push([v,y])}return l}function Zc(t){return t==0?ad:t==1?Ge:e=>Zn(e,t)}function Cd(t){let e=t==0?$i:vi,n=t==0?(s,i,o,l,c,h)=>{s.arcTo(i,o,l,c,h)}:(s,i,o,l,c,h)=>{s.arcTo(o,i,c,l,h)},r=t==0?(s,i,o,l,c)=>{s.rect(i,o,l,c)}:(s,i,o,l,c)=>{s.rect(o,i,c,l)};return(s,i,o,l,c,h=0,m=0)=>{h==0&&m==0?r(s,i,o,l,c):(h=Yt(h,l/2,c/2),m=Yt(m,l/2,c/2),e(s,i+h,o),n(s,i+l,o,i+l,o+c,h),n(s,i+l,o+c,i,o+c,m),n(s,i,o+c,i,o,m),n(s,i,o,i+l,o,h),s.closePath())}}var $i=(t,e,n)=>{t.moveTo(e,n)},vi=(t,e,n)=>{t.moveTo(n,e)},Ur=(t,e,n)=>{t.lineTo(e,n)},Vr=(t,e,n)=>{t.lineTo(n,e)},yi=Cd(0),ha=Cd(1),jd=(t,e,n,r,s,i)=>{t.arc(e,n,r,s,i)},Nd=(t,e,n,r,s,i)=>{t.arc(n,e,r,s,i)},Id=(t,e,n,r,s,i,o)=>{t.bezierCurveTo(e,n,r,s,i,o)},Ld=(t,e,n,r,s,i,o)=>{t.bezierCurveTo(n,e,s,r,o,i)};function Pd(t){return(e,n,r,s,i)=>nr(e,n,(o,l,c,h,m,u,f,v,y,k,S)=>{let{pxRound:A,points:_}=o,N,M;h.ori==0?(N=$i,M=jd):(N=vi,M=Nd);let P=Se(_.width*ge,3),C=(_.size-_.width)/2*ge,K=Se(C*2,3),q=new Path2D,re=new Path2D,{left:Q,top:I,width:ne,height:U}=e.bbox;yi(re,Q-K,I-K,ne+K*2,U+K*2);let X=Y=>{if(c[Y]!=null){let de=A(u(l[Y],h,k,v)),B=A(f(c[Y],m,S,y));N(q,de+C,B),M(q,de,B,C,0,di*2)}};if(i)i.forEach(X);else for(let Y=r;Y<=s;Y++)X(Y);return{stroke:P>0?q:null,fill:q,clip:re,flags:zr|Jo}})}function Rd(t){return(e,n,r,s,i,o)=>{r!=s&&(i!=r&&o!=r&&t(e,n,r),i!=s&&o!=s&&t(e,n,s),t(e,n,o))}}var Sm=Rd(Ur),Mm=Rd(Vr);function Dd(t){let e=fe(t?.alignGaps,0);return(n,r,s,i)=>nr(n,r,(o,l,c,h,m,u,f,v,y,k,S)=>{[s,i]=fi(c,s,i);let A=o.pxRound,_=U=>A(u(U,h,k,v)),N=U=>A(f(U,m,S,y)),M,P;h.ori==0?(M=Ur,P=Sm):(M=Vr,P=Mm);let C=h.dir*(h.ori==0?1:-1),K={stroke:new Path2D,fill:null,clip:null,band:null,gaps:null,flags:zr},q=K.stroke,re=!1;if(i-s>=k*4){let U=V=>n.posToVal(V,h.key,!0),X=null,Y=null,de,B,mt,je=_(l[C==1?s:i]),ue=_(l[s]),xe=_(l[i]),oe=U(C==1?ue+1:xe-1);for(let V=C==1?s:i;V>=s&&V<=i;V+=C){let qe=l[V],Ne=(C==1?qe<oe:qe>oe)?je:_(qe),we=c[V];Ne==je?we!=null?(B=we,X==null?(M(q,Ne,N(B)),de=X=Y=B):B<X?X=B:B>Y&&(Y=B)):we===null&&(re=!0):(X!=null&&P(q,je,N(X),N(Y),N(de),N(B)),we!=null?(B=we,M(q,Ne,N(B)),X=Y=de=B):(X=Y=null,we===null&&(re=!0)),je=Ne,oe=U(je+C))}X!=null&&X!=Y&&mt!=je&&P(q,je,N(X),N(Y),N(de),N(B))}else for(let U=C==1?s:i;U>=s&&U<=i;U+=C){let X=c[U];X===null?re=!0:X!=null&&M(q,_(l[U]),N(X))}let[I,ne]=ca(n,r);if(o.fill!=null||I!=0){let U=K.fill=new Path2D(q),X=o.fillTo(n,r,o.min,o.max,I),Y=N(X),de=_(l[s]),B=_(l[i]);C==-1&&([B,de]=[de,B]),M(U,B,Y),M(U,de,Y)}if(!o.spanGaps){let U=[];re&&U.push(...da(l,c,s,i,C,_,e)),K.gaps=U=o.gaps(n,r,s,i,U),K.clip=bi(U,h.ori,v,y,k,S)}return ne!=0&&(K.band=ne==2?[hn(n,r,s,i,q,-1),hn(n,r,s,i,q,1)]:hn(n,r,s,i,q,ne)),K})}function Om(t){let e=fe(t.align,1),n=fe(t.ascDesc,!1),r=fe(t.alignGaps,0),s=fe(t.extend,!1);return(i,o,l,c)=>nr(i,o,(h,m,u,f,v,y,k,S,A,_,N)=>{[l,c]=fi(u,l,c);let M=h.pxRound,{left:P,width:C}=i.bbox,K=ue=>M(y(ue,f,_,S)),q=ue=>M(k(ue,v,N,A)),re=f.ori==0?Ur:Vr,Q={stroke:new Path2D,fill:null,clip:null,band:null,gaps:null,flags:zr},I=Q.stroke,ne=f.dir*(f.ori==0?1:-1),U=q(u[ne==1?l:c]),X=K(m[ne==1?l:c]),Y=X,de=X;s&&e==-1&&(de=P,re(I,de,U)),re(I,X,U);for(let ue=ne==1?l:c;ue>=l&&ue<=c;ue+=ne){let xe=u[ue];if(xe==null)continue;let oe=K(m[ue]),V=q(xe);e==1?re(I,oe,U):re(I,Y,V),re(I,oe,V),U=V,Y=oe}let B=Y;s&&e==1&&(B=P+C,re(I,B,U));let[mt,je]=ca(i,o);if(h.fill!=null||mt!=0){let ue=Q.fill=new Path2D(I),xe=h.fillTo(i,o,h.min,h.max,mt),oe=q(xe);re(ue,B,oe),re(ue,de,oe)}if(!h.spanGaps){let ue=[];ue.push(...da(m,u,l,c,ne,K,r));let xe=h.width*ge/2,oe=n||e==1?xe:-xe,V=n||e==-1?-xe:xe;ue.forEach(qe=>{qe[0]+=oe,qe[1]+=V}),Q.gaps=ue=h.gaps(i,o,l,c,ue),Q.clip=bi(ue,f.ori,S,A,_,N)}return je!=0&&(Q.band=je==2?[hn(i,o,l,c,I,-1),hn(i,o,l,c,I,1)]:hn(i,o,l,c,I,je)),Q})}function Qc(t,e,n,r,s,i,o=Ee){if(t.length>1){let l=null;for(let c=0,h=1/0;c<t.length;c++)if(e[c]!==void 0){if(l!=null){let m=Je(t[c]-t[l]);m<h&&(h=m,o=Je(n(t[c],r,s,i)-n(t[l],r,s,i)))}l=c}}return o}function Am(t){t=t||ws;let e=fe(t.size,[.6,Ee,1]),n=t.align||0,r=t.gap||0,s=t.radius;s=s==null?[0,0]:typeof s=="number"?[s,0]:s;let i=ce(s),o=1-e[0],l=fe(e[1],Ee),c=fe(e[2],1),h=fe(t.disp,ws),m=fe(t.each,v=>{}),{fill:u,stroke:f}=h;return(v,y,k,S)=>nr(v,y,(A,_,N,M,P,C,K,q,re,Q,I)=>{let ne=A.pxRound,U=n,X=r*ge,Y=l*ge,de=c*ge,B,mt;M.ori==0?[B,mt]=i(v,y):[mt,B]=i(v,y);let je=M.dir*(M.ori==0?1:-1),ue=M.ori==0?yi:ha,xe=M.ori==0?m:(z,Me,Ye,or,jn,Jt,Nn)=>{m(z,Me,Ye,jn,or,Nn,Jt)},oe=fe(v.bands,sa).find(z=>z.series[0]==y),V=oe!=null?oe.dir:0,qe=A.fillTo(v,y,A.min,A.max,V),at=ne(K(qe,P,I,re)),Ne,we,Rt,bt=Q,Pe=ne(A.width*ge),Gt=!1,rn=null,Mt=null,pn=null,rr=null;u!=null&&(Pe==0||f!=null)&&(Gt=!0,rn=u.values(v,y,k,S),Mt=new Map,new Set(rn).forEach(z=>{z!=null&&Mt.set(z,new Path2D)}),Pe>0&&(pn=f.values(v,y,k,S),rr=new Map,new Set(pn).forEach(z=>{z!=null&&rr.set(z,new Path2D)})));let{x0:sr,size:Fr}=h;if(sr!=null&&Fr!=null){U=1,_=sr.values(v,y,k,S),sr.unit==2&&(_=_.map(Ye=>v.posToVal(q+Ye*Q,M.key,!0)));let z=Fr.values(v,y,k,S);Fr.unit==2?we=z[0]*Q:we=C(z[0],M,Q,q)-C(0,M,Q,q),bt=Qc(_,N,C,M,Q,q,bt),Rt=bt-we+X}else bt=Qc(_,N,C,M,Q,q,bt),Rt=bt*o+X,we=bt-Rt;Rt<1&&(Rt=0),Pe>=we/2&&(Pe=0),Rt<5&&(ne=ad);let vs=Rt>0,Tn=bt-Rt-(vs?Pe:0);we=ne(qo(Tn,de,Y)),Ne=(U==0?we/2:U==je?0:we)-U*je*((U==0?X/2:0)+(vs?Pe/2:0));let lt={stroke:null,fill:null,clip:null,band:null,gaps:null,flags:0},ir=Gt?null:new Path2D,sn=null;if(oe!=null)sn=v.data[oe.series[1]];else{let{y0:z,y1:Me}=h;z!=null&&Me!=null&&(N=Me.values(v,y,k,S),sn=z.values(v,y,k,S))}let Cn=B*we,se=mt*we;for(let z=je==1?k:S;z>=k&&z<=S;z+=je){let Me=N[z];if(Me==null)continue;if(sn!=null){let gt=sn[z]??0;if(Me-gt==0)continue;at=K(gt,P,I,re)}let Ye=M.distr!=2||h!=null?_[z]:z,or=C(Ye,M,Q,q),jn=K(fe(Me,qe),P,I,re),Jt=ne(or-Ne),Nn=ne(ft(jn,at)),$t=ne(Yt(jn,at)),Ot=Nn-$t;if(Me!=null){let gt=Me<0?se:Cn,Dt=Me<0?Cn:se;Gt?(Pe>0&&pn[z]!=null&&ue(rr.get(pn[z]),Jt,$t+Et(Pe/2),we,ft(0,Ot-Pe),gt,Dt),rn[z]!=null&&ue(Mt.get(rn[z]),Jt,$t+Et(Pe/2),we,ft(0,Ot-Pe),gt,Dt)):ue(ir,Jt,$t+Et(Pe/2),we,ft(0,Ot-Pe),gt,Dt),xe(v,y,z,Jt-Pe/2,$t,we+Pe,Ot)}}return Pe>0?lt.stroke=Gt?rr:ir:Gt||(lt._fill=A.width==0?A._fill:A._stroke??A._fill,lt.width=0),lt.fill=Gt?Mt:ir,lt})}function Tm(t,e){let n=fe(e?.alignGaps,0);return(r,s,i,o)=>nr(r,s,(l,c,h,m,u,f,v,y,k,S,A)=>{[i,o]=fi(h,i,o);let _=l.pxRound,N=B=>_(f(B,m,S,y)),M=B=>_(v(B,u,A,k)),P,C,K;m.ori==0?(P=$i,K=Ur,C=Id):(P=vi,K=Vr,C=Ld);let q=m.dir*(m.ori==0?1:-1),re=N(c[q==1?i:o]),Q=re,I=[],ne=[];for(let B=q==1?i:o;B>=i&&B<=o;B+=q)if(h[B]!=null){let je=c[B],ue=N(je);I.push(Q=ue),ne.push(M(h[B]))}let U={stroke:t(I,ne,P,K,C,_),fill:null,clip:null,band:null,gaps:null,flags:zr},X=U.stroke,[Y,de]=ca(r,s);if(l.fill!=null||Y!=0){let B=U.fill=new Path2D(X),mt=l.fillTo(r,s,l.min,l.max,Y),je=M(mt);K(B,Q,je),K(B,re,je)}if(!l.spanGaps){let B=[];B.push(...da(c,h,i,o,q,N,n)),U.gaps=B=l.gaps(r,s,i,o,B),U.clip=bi(B,m.ori,y,k,S,A)}return de!=0&&(U.band=de==2?[hn(r,s,i,o,X,-1),hn(r,s,i,o,X,1)]:hn(r,s,i,o,X,de)),U})}function Cm(t){return Tm(jm,t)}function jm(t,e,n,r,s,i){let o=t.length;if(o<2)return null;let l=new Path2D;if(n(l,t[0],e[0]),o==2)r(l,t[1],e[1]);else{let c=Array(o),h=Array(o-1),m=Array(o-1),u=Array(o-1);for(let f=0;f<o-1;f++)m[f]=e[f+1]-e[f],u[f]=t[f+1]-t[f],h[f]=m[f]/u[f];c[0]=h[0];for(let f=1;f<o-1;f++)h[f]===0||h[f-1]===0||h[f-1]>0!=h[f]>0?c[f]=0:(c[f]=3*(u[f-1]+u[f])/((2*u[f]+u[f-1])/h[f-1]+(u[f]+2*u[f-1])/h[f]),isFinite(c[f])||(c[f]=0));c[o-1]=h[o-2];for(let f=0;f<o-1;f++)s(l,t[f]+u[f]/3,e[f]+c[f]*u[f]/3,t[f+1]-u[f]/3,e[f+1]-c[f+1]*u[f]/3,t[f+1],e[f+1])}return l}var Ko=new Set;function Xc(){for(let t of Ko)t.syncRect(!0)}Hr&&(er(uf,Lr,Xc),er(pf,Lr,Xc,!0),er(hi,Lr,()=>{it.pxRatio=ge}));var Nm=Dd(),Im=Pd();function ed(t,e,n,r){return(r?[t[0],t[1]].concat(t.slice(2)):[t[0]].concat(t.slice(1))).map((i,o)=>Zo(i,o,e,n))}function Lm(t,e){return t.map((n,r)=>r==0?{}:Be({},e,n))}function Zo(t,e,n,r){return Be({},e==0?n:r,t)}function zd(t,e,n){return e==null?Rr:[e,n]}var Pm=zd;function Rm(t,e,n){return e==null?Rr:ui(e,n,na,!0)}function Hd(t,e,n,r){return e==null?Rr:mi(e,n,t.scales[r].log,!1)}var Dm=Hd;function Ud(t,e,n,r){return e==null?Rr:ta(e,n,t.scales[r].log,!1)}var zm=Ud;function Hm(t,e,n,r,s){let i=ft(jc(t),jc(e)),o=e-t,l=qt(s/r*o,n);do{let c=n[l],h=r*c/o;if(h>=s&&i+(c<5?An.get(c):0)<=17)return[c,h]}while(++l<n.length);return[0,0]}function td(t){let e,n;return t=t.replace(/(\d+)px/,(r,s)=>(e=Ge((n=+s)*ge))+"px"),[t,e,n]}function Um(t){t.show&&[t.font,t.labelFont].forEach(e=>{let n=Se(e[2]*ge,1);e[0]=e[0].replace(/[0-9.]+px/,n+"px"),e[1]=n})}function it(t,e,n){let r={mode:fe(t.mode,1)},s=r.mode;function i(d,p,w,b){let $=p.valToPct(d);return b+w*(p.dir==-1?1-$:$)}function o(d,p,w,b){let $=p.valToPct(d);return b+w*(p.dir==-1?$:1-$)}function l(d,p,w,b){return p.ori==0?i(d,p,w,b):o(d,p,w,b)}r.valToPosH=i,r.valToPosV=o;let c=!1;r.status=0;let h=r.root=Lt(Yp);if(t.id!=null&&(h.id=t.id),_t(h,t.class),t.title){let d=Lt(Kp,h);d.textContent=t.title}let m=Bt("canvas"),u=r.ctx=m.getContext("2d"),f=Lt(Zp,h);er("click",f,d=>{d.target===y&&(Oe!=wr||Ie!=br)&&rt.click(r,d)},!0);let v=r.under=Lt(Qp,f);f.appendChild(m);let y=r.over=Lt(Xp,f);t=Dr(t);let k=+fe(t.pxAlign,1),S=Zc(k);(t.plugins||[]).forEach(d=>{d.opts&&(t=d.opts(r,t)||t)});let A=t.ms||.001,_=r.series=s==1?ed(t.series||[],Wc,Jc,!1):Lm(t.series||[null],Gc),N=r.axes=ed(t.axes||[],Fc,qc,!0),M=r.scales={},P=r.bands=t.bands||[];P.forEach(d=>{d.fill=ce(d.fill||null),d.dir=fe(d.dir,-1)});let C=s==2?_[1].facets[0].scale:_[0].scale,K={axes:_h,series:$h},q=(t.drawOrder||["axes","series"]).map(d=>K[d]);function re(d){let p=d.distr==3?w=>dn(w>0?w:d.clamp(r,w,d.min,d.max,d.key)):d.distr==4?w=>Do(w,d.asinh):d.distr==100?w=>d.fwd(w):w=>w;return w=>{let b=p(w),{_min:$,_max:x}=d,E=x-$;return(b-$)/E}}function Q(d){let p=M[d];if(p==null){let w=(t.scales||ws)[d]||ws;if(w.from!=null){Q(w.from);let b=Be({},M[w.from],w,{key:d});b.valToPct=re(b),M[d]=b}else{p=M[d]=Be({},d==C?Ad:km,w),p.key=d;let b=p.time,$=p.range,x=On($);if((d!=C||s==2&&!b)&&(x&&($[0]==null||$[1]==null)&&($={min:$[0]==null?Ac:{mode:1,hard:$[0],soft:$[0]},max:$[1]==null?Ac:{mode:1,hard:$[1],soft:$[1]}},x=!1),!x&&wi($))){let E=$;$=(O,j,R)=>j==null?Rr:ui(j,R,E)}p.range=ce($||(b?Pm:d==C?p.distr==3?Dm:p.distr==4?zm:zd:p.distr==3?Hd:p.distr==4?Ud:Rm)),p.auto=ce(x?!1:p.auto),p.clamp=ce(p.clamp||xm),p._min=p._max=null,p.valToPct=re(p)}}}Q("x"),Q("y"),s==1&&_.forEach(d=>{Q(d.scale)}),N.forEach(d=>{Q(d.scale)});for(let d in t.scales)Q(d);let I=M[C],ne=I.distr,U,X;I.ori==0?(_t(h,Gp),U=i,X=o):(_t(h,Jp),U=o,X=i);let Y={};for(let d in M){let p=M[d];(p.min!=null||p.max!=null)&&(Y[d]={min:p.min,max:p.max},p.min=p.max=null)}let de=t.tzDate||(d=>new Date(Ge(d/A))),B=t.fmtDate||ia,mt=A==1?Jf(de):Qf(de),je=Hc(de,zc(A==1?Gf:Zf,B)),ue=Vc(de,Uc(em,B)),xe=[],oe=r.legend=Be({},rm,t.legend),V=r.cursor=Be({},cm,{drag:{y:s==2}},t.cursor),qe=oe.show,at=V.show,Ne=oe.markers;oe.idxs=xe,Ne.width=ce(Ne.width),Ne.dash=ce(Ne.dash),Ne.stroke=ce(Ne.stroke),Ne.fill=ce(Ne.fill);let we,Rt,bt,Pe=[],Gt=[],rn,Mt=!1,pn={};if(oe.live){let d=_[1]?_[1].values:null;Mt=d!=null,rn=Mt?d(r,1,0):{_:0};for(let p in rn)pn[p]=Xo}if(qe)if(we=Bt("table",of,h),bt=Bt("tbody",null,we),oe.mount(r,we),Mt){Rt=Bt("thead",null,we,bt);let d=Bt("tr",null,Rt);Bt("th",null,d);for(var rr in rn)Bt("th",gc,d).textContent=rr}else _t(we,lf),oe.live&&_t(we,af);let sr={show:!0},Fr={show:!1};function vs(d,p){if(p==0&&(Mt||!oe.live||s==2))return Rr;let w=[],b=Bt("tr",cf,bt,bt.childNodes[p]);_t(b,d.class),d.show||_t(b,Xn);let $=Bt("th",null,b);if(Ne.show){let O=Lt(df,$);if(p>0){let j=Ne.width(r,p);j&&(O.style.border=j+"px "+Ne.dash(r,p)+" "+Ne.stroke(r,p)),O.style.background=Ne.fill(r,p)}}let x=Lt(gc,$);d.label instanceof HTMLElement?x.appendChild(d.label):x.textContent=d.label,p>0&&(Ne.show||(x.style.color=d.width>0?Ne.stroke(r,p):Ne.fill(r,p)),lt("click",$,O=>{if(V._lock)return;Ln(O);let j=_.indexOf(d);if((O.ctrlKey||O.metaKey)!=oe.isolate){let R=_.some((D,H)=>H>0&&H!=j&&D.show);_.forEach((D,H)=>{H>0&&Zt(H,R?H==j?sr:Fr:sr,!0,Fe.setSeries)})}else Zt(j,{show:!d.show},!0,Fe.setSeries)},!1),lr&&lt(vc,$,O=>{V._lock||(Ln(O),Zt(_.indexOf(d),vr,!0,Fe.setSeries))},!1));for(var E in rn){let O=Bt("td",hf,b);O.textContent="--",w.push(O)}return[b,w]}let Tn=new Map;function lt(d,p,w,b=!0){let $=Tn.get(p)||{},x=V.bind[d](r,p,w,b);x&&(er(d,p,$[d]=x),Tn.set(p,$))}function ir(d,p,w){let b=Tn.get(p)||{};for(let $ in b)(d==null||$==d)&&(Bo($,p,b[$]),delete b[$]);d==null&&Tn.delete(p)}let sn=0,Cn=0,se=0,z=0,Me=0,Ye=0,or=Me,jn=Ye,Jt=se,Nn=z,$t=0,Ot=0,gt=0,Dt=0;r.bbox={};let Si=!1,ys=!1,ar=!1,In=!1,xs=!1,At=!1;function Mi(d,p,w){(w||d!=r.width||p!=r.height)&&wa(d,p),pr(!1),ar=!0,ys=!0,fr()}function wa(d,p){r.width=sn=se=d,r.height=Cn=z=p,Me=Ye=0,uh(),ph();let w=r.bbox;$t=w.left=Zn(Me*ge,.5),Ot=w.top=Zn(Ye*ge,.5),gt=w.width=Zn(se*ge,.5),Dt=w.height=Zn(z*ge,.5)}let ch=3;function dh(){let d=!1,p=0;for(;!d;){p++;let w=xh(p),b=kh(p);d=p==ch||w&&b,d||(wa(r.width,r.height),ys=!0)}}function hh({width:d,height:p}){Mi(d,p)}r.setSize=hh;function uh(){let d=!1,p=!1,w=!1,b=!1;N.forEach(($,x)=>{if($.show&&$._show){let{side:E,_size:O}=$,j=E%2,R=$.label!=null?$.labelSize:0,D=O+R;D>0&&(j?(se-=D,E==3?(Me+=D,b=!0):w=!0):(z-=D,E==0?(Ye+=D,d=!0):p=!0))}}),Pn[0]=d,Pn[1]=w,Pn[2]=p,Pn[3]=b,se-=fn[1]+fn[3],Me+=fn[3],z-=fn[2]+fn[0],Ye+=fn[0]}function ph(){let d=Me+se,p=Ye+z,w=Me,b=Ye;function $(x,E){switch(x){case 1:return d+=E,d-E;case 2:return p+=E,p-E;case 3:return w-=E,w+E;case 0:return b-=E,b+E}}N.forEach((x,E)=>{if(x.show&&x._show){let O=x.side;x._pos=$(O,x._size),x.label!=null&&(x._lpos=$(O,x.labelSize))}})}if(V.dataIdx==null){let d=V.hover,p=d.skip=new Set(d.skip??[]);p.add(void 0);let w=d.prox=ce(d.prox),b=d.bias??=0;V.dataIdx=($,x,E,O)=>{if(x==0)return E;let j=E,R=w($,x,E,O)??Ee,D=R>=0&&R<Ee,H=I.ori==0?se:z,ee=V.left,me=e[0],pe=e[x];if(p.has(pe[E])){j=null;let ae=null,J=null,F;if(b==0||b==-1)for(F=E;ae==null&&F-- >0;)p.has(pe[F])||(ae=F);if(b==0||b==1)for(F=E;J==null&&F++<pe.length;)p.has(pe[F])||(J=F);if(ae!=null||J!=null)if(D){let Te=ae==null?-1/0:U(me[ae],I,H,0),De=J==null?1/0:U(me[J],I,H,0),tt=ee-Te,ke=De-ee;tt<=ke?tt<=R&&(j=ae):ke<=R&&(j=J)}else j=J==null?ae:ae==null?J:E-ae<=J-E?ae:J}else D&&Je(ee-U(me[E],I,H,0))>R&&(j=null);return j}}let Ln=d=>{V.event=d};V.idxs=xe,V._lock=!1;let ot=V.points;ot.show=ce(ot.show),ot.size=ce(ot.size),ot.stroke=ce(ot.stroke),ot.width=ce(ot.width),ot.fill=ce(ot.fill);let Kt=r.focus=Be({},t.focus||{alpha:.3},V.focus),lr=Kt.prox>=0,cr=lr&&ot.one,Tt=[],dr=[],hr=[];function ba(d,p){let w=ot.show(r,p);if(w instanceof HTMLElement)return _t(w,sf),_t(w,d.class),nn(w,-10,-10,se,z),y.insertBefore(w,Tt[p]),w}function $a(d,p){if(s==1||p>0){let w=s==1&&M[d.scale].time,b=d.value;d.value=w?Lc(b)?Vc(de,Uc(b,B)):b||ue:b||$m,d.label=d.label||(w?hm:dm)}if(cr||p>0){d.width=d.width==null?1:d.width,d.paths=d.paths||Nm||kf,d.fillTo=ce(d.fillTo||_m),d.pxAlign=+fe(d.pxAlign,k),d.pxRound=Zc(d.pxAlign),d.stroke=ce(d.stroke||null),d.fill=ce(d.fill||null),d._stroke=d._fill=d._paths=d._focus=null;let w=vm(ft(1,d.width),1),b=d.points=Be({},{size:w,width:ft(1,w*.2),stroke:d.stroke,space:w*2,paths:Im,_stroke:null,_fill:null},d.points);b.show=ce(b.show),b.filter=ce(b.filter),b.fill=ce(b.fill),b.stroke=ce(b.stroke),b.paths=ce(b.paths),b.pxAlign=d.pxAlign}if(qe){let w=vs(d,p);Pe.splice(p,0,w[0]),Gt.splice(p,0,w[1]),oe.values.push(null)}if(at){xe.splice(p,0,null);let w=null;cr?p==0&&(w=ba(d,p)):p>0&&(w=ba(d,p)),Tt.splice(p,0,w),dr.splice(p,0,0),hr.splice(p,0,0)}et("addSeries",p)}function fh(d,p){p=p??_.length,d=s==1?Zo(d,p,Wc,Jc):Zo(d,p,{},Gc),_.splice(p,0,d),$a(_[p],p)}r.addSeries=fh;function mh(d){if(_.splice(d,1),qe){oe.values.splice(d,1),Gt.splice(d,1);let p=Pe.splice(d,1)[0];ir(null,p.firstChild),p.remove()}at&&(xe.splice(d,1),Tt.splice(d,1)[0].remove(),dr.splice(d,1),hr.splice(d,1)),et("delSeries",d)}r.delSeries=mh;let Pn=[!1,!1,!1,!1];function gh(d,p){if(d._show=d.show,d.show){let w=d.side%2,b=M[d.scale];b==null&&(d.scale=w?_[1].scale:C,b=M[d.scale]);let $=b.time;d.size=ce(d.size),d.space=ce(d.space),d.rotate=ce(d.rotate),On(d.incrs)&&d.incrs.forEach(E=>{!An.has(E)&&An.set(E,dd(E))}),d.incrs=ce(d.incrs||(b.distr==2?Bf:$?A==1?Yf:Kf:Qn)),d.splits=ce(d.splits||($&&b.distr==1?mt:b.distr==3?Yo:b.distr==4?fm:pm)),d.stroke=ce(d.stroke),d.grid.stroke=ce(d.grid.stroke),d.ticks.stroke=ce(d.ticks.stroke),d.border.stroke=ce(d.border.stroke);let x=d.values;d.values=On(x)&&!On(x[0])?ce(x):$?On(x)?Hc(de,zc(x,B)):Lc(x)?Xf(de,x):x||je:x||um,d.filter=ce(d.filter||(b.distr>=3&&b.log==10?wm:b.distr==3&&b.log==2?bm:ld)),d.font=td(d.font),d.labelFont=td(d.labelFont),d._size=d.size(r,null,p,0),d._space=d._rotate=d._incrs=d._found=d._splits=d._values=null,d._size>0&&(Pn[p]=!0,d._el=Lt(ef,f))}}function Wr(d,p,w,b){let[$,x,E,O]=w,j=p%2,R=0;return j==0&&(O||x)&&(R=p==0&&!$||p==2&&!E?Ge(Fc.size/3):0),j==1&&($||E)&&(R=p==1&&!x||p==3&&!O?Ge(qc.size/2):0),R}let va=r.padding=(t.padding||[Wr,Wr,Wr,Wr]).map(d=>ce(fe(d,Wr))),fn=r._padding=va.map((d,p)=>d(r,p,Pn,0)),nt,Ke=null,Ze=null,ks=s==1?_[0].idxs:null,zt=null,Br=!1;function ya(d,p){if(e=d??[],r.data=r._data=e,s==2){nt=0;for(let w=1;w<_.length;w++)nt+=e[w][0].length}else{e.length==0&&(r.data=r._data=e=[[]]),zt=e[0],nt=zt.length;let w=e;if(ne==2){w=e.slice();let b=w[0]=Array(nt);for(let $=0;$<nt;$++)b[$]=$}r._data=e=w}if(pr(!0),et("setData"),ne==2&&(ar=!0),p!==!1){let w=I;w.auto(r,Br)?Oi():gn(C,w.min,w.max),In=In||V.left>=0,At=!0,fr()}}r.setData=ya;function Oi(){Br=!0;let d,p;s==1&&(nt>0?(Ke=ks[0]=0,Ze=ks[1]=nt-1,d=e[0][Ke],p=e[0][Ze],ne==2?(d=Ke,p=Ze):d==p&&(ne==3?[d,p]=mi(d,d,I.log,!1):ne==4?[d,p]=ta(d,d,I.log,!1):I.time?p=d+Ge(86400/A):[d,p]=ui(d,p,na,!0))):(Ke=ks[0]=d=null,Ze=ks[1]=p=null)),gn(C,d,p)}let _s,ur,Ai,Ti,Ci,ji,Ni,Ii,Li,wt;function xa(d,p,w,b,$,x){d??=bc,w??=sa,b??="butt",$??=bc,x??="round",d!=_s&&(u.strokeStyle=_s=d),$!=ur&&(u.fillStyle=ur=$),p!=Ai&&(u.lineWidth=Ai=p),x!=Ci&&(u.lineJoin=Ci=x),b!=ji&&(u.lineCap=ji=b),w!=Ti&&u.setLineDash(Ti=w)}function ka(d,p,w,b){p!=ur&&(u.fillStyle=ur=p),d!=Ni&&(u.font=Ni=d),w!=Ii&&(u.textAlign=Ii=w),b!=Li&&(u.textBaseline=Li=b)}function Pi(d,p,w,b,$=0){if(b.length>0&&d.auto(r,Br)&&(p==null||p.min==null)){let x=fe(Ke,0),E=fe(Ze,b.length-1),O=w.min==null?wf(b,x,E,$,d.distr==3):[w.min,w.max];d.min=Yt(d.min,w.min=O[0]),d.max=ft(d.max,w.max=O[1])}}let _a={min:null,max:null};function wh(){for(let b in M){let $=M[b];Y[b]==null&&($.min==null||Y[C]!=null&&$.auto(r,Br))&&(Y[b]=_a)}for(let b in M){let $=M[b];Y[b]==null&&$.from!=null&&Y[$.from]!=null&&(Y[b]=_a)}Y[C]!=null&&pr(!0);let d={};for(let b in Y){let $=Y[b];if($!=null){let x=d[b]=Dr(M[b],Sf);if($.min!=null)Be(x,$);else if(b!=C||s==2)if(nt==0&&x.from==null){let E=x.range(r,null,null,b);x.min=E[0],x.max=E[1]}else x.min=Ee,x.max=-Ee}}if(nt>0){_.forEach((b,$)=>{if(s==1){let x=b.scale,E=Y[x];if(E==null)return;let O=d[x];if($==0){let j=O.range(r,O.min,O.max,x);O.min=j[0],O.max=j[1],Ke=qt(O.min,e[0]),Ze=qt(O.max,e[0]),Ze-Ke>1&&(e[0][Ke]<O.min&&Ke++,e[0][Ze]>O.max&&Ze--),b.min=zt[Ke],b.max=zt[Ze]}else b.show&&b.auto&&Pi(O,E,b,e[$],b.sorted);b.idxs[0]=Ke,b.idxs[1]=Ze}else if($>0&&b.show&&b.auto){let[x,E]=b.facets,O=x.scale,j=E.scale,[R,D]=e[$],H=d[O],ee=d[j];H!=null&&Pi(H,Y[O],x,R,x.sorted),ee!=null&&Pi(ee,Y[j],E,D,E.sorted),b.min=E.min,b.max=E.max}});for(let b in d){let $=d[b],x=Y[b];if($.from==null&&(x==null||x.min==null)){let E=$.range(r,$.min==Ee?null:$.min,$.max==-Ee?null:$.max,b);$.min=E[0],$.max=E[1]}}}for(let b in d){let $=d[b];if($.from!=null){let x=d[$.from];if(x.min==null)$.min=$.max=null;else{let E=$.range(r,x.min,x.max,b);$.min=E[0],$.max=E[1]}}}let p={},w=!1;for(let b in d){let $=d[b],x=M[b];if(x.min!=$.min||x.max!=$.max){x.min=$.min,x.max=$.max;let E=x.distr;x._min=E==3?dn(x.min):E==4?Do(x.min,x.asinh):E==100?x.fwd(x.min):x.min,x._max=E==3?dn(x.max):E==4?Do(x.max,x.asinh):E==100?x.fwd(x.max):x.max,p[b]=w=!0}}if(w){_.forEach((b,$)=>{s==2?$>0&&p.y&&(b._paths=null):p[b.scale]&&(b._paths=null)});for(let b in p)ar=!0,et("setScale",b);at&&V.left>=0&&(In=At=!0)}for(let b in Y)Y[b]=null}function bh(d){let p=qo(Ke-1,0,nt-1),w=qo(Ze+1,0,nt-1);for(;d[p]==null&&p>0;)p--;for(;d[w]==null&&w<nt-1;)w++;return[p,w]}function $h(){if(nt>0){let d=_.some(p=>p._focus)&&wt!=Kt.alpha;d&&(u.globalAlpha=wt=Kt.alpha),_.forEach((p,w)=>{if(w>0&&p.show&&(Ea(w,!1),Ea(w,!0),p._paths==null)){let b=wt;wt!=p.alpha&&(u.globalAlpha=wt=p.alpha);let $=s==2?[0,e[w][0].length-1]:bh(e[w]);p._paths=p.paths(r,w,$[0],$[1]),wt!=b&&(u.globalAlpha=wt=b)}}),_.forEach((p,w)=>{if(w>0&&p.show){let b=wt;wt!=p.alpha&&(u.globalAlpha=wt=p.alpha),p._paths!=null&&Sa(w,!1);{let $=p._paths!=null?p._paths.gaps:null,x=p.points.show(r,w,Ke,Ze,$),E=p.points.filter(r,w,x,$);(x||E)&&(p.points._paths=p.points.paths(r,w,Ke,Ze,E),Sa(w,!0))}wt!=b&&(u.globalAlpha=wt=b),et("drawSeries",w)}}),d&&(u.globalAlpha=wt=1)}}function Ea(d,p){let w=p?_[d].points:_[d];w._stroke=w.stroke(r,d),w._fill=w.fill(r,d)}function Sa(d,p){let w=p?_[d].points:_[d],{stroke:b,fill:$,clip:x,flags:E,_stroke:O=w._stroke,_fill:j=w._fill,_width:R=w.width}=w._paths;R=Se(R*ge,3);let D=null,H=R%2/2;p&&j==null&&(j=R>0?"#fff":O);let ee=w.pxAlign==1&&H>0;if(ee&&u.translate(H,H),!p){let me=$t-R/2,pe=Ot-R/2,ae=gt+R,J=Dt+R;D=new Path2D,D.rect(me,pe,ae,J)}p?Ri(O,R,w.dash,w.cap,j,b,$,E,x):vh(d,O,R,w.dash,w.cap,j,b,$,E,D,x),ee&&u.translate(-H,-H)}function vh(d,p,w,b,$,x,E,O,j,R,D){let H=!1;j!=0&&P.forEach((ee,me)=>{if(ee.series[0]==d){let pe=_[ee.series[1]],ae=e[ee.series[1]],J=(pe._paths||ws).band;On(J)&&(J=ee.dir==1?J[0]:J[1]);let F,Te=null;pe.show&&J&&$f(ae,Ke,Ze)?(Te=ee.fill(r,me)||x,F=pe._paths.clip):J=null,Ri(p,w,b,$,Te,E,O,j,R,D,F,J),H=!0}}),H||Ri(p,w,b,$,x,E,O,j,R,D)}let Ma=zr|Jo;function Ri(d,p,w,b,$,x,E,O,j,R,D,H){xa(d,p,w,b,$),(j||R||H)&&(u.save(),j&&u.clip(j),R&&u.clip(R)),H?(O&Ma)==Ma?(u.clip(H),D&&u.clip(D),Ss($,E),Es(d,x,p)):O&Jo?(Ss($,E),u.clip(H),Es(d,x,p)):O&zr&&(u.save(),u.clip(H),D&&u.clip(D),Ss($,E),u.restore(),Es(d,x,p)):(Ss($,E),Es(d,x,p)),(j||R||H)&&u.restore()}function Es(d,p,w){w>0&&(p instanceof Map?p.forEach((b,$)=>{u.strokeStyle=_s=$,u.stroke(b)}):p!=null&&d&&u.stroke(p))}function Ss(d,p){p instanceof Map?p.forEach((w,b)=>{u.fillStyle=ur=b,u.fill(w)}):p!=null&&d&&u.fill(p)}function yh(d,p,w,b){let $=N[d],x;if(b<=0)x=[0,0];else{let E=$._space=$.space(r,d,p,w,b),O=$._incrs=$.incrs(r,d,p,w,b,E);x=Hm(p,w,O,b,E)}return $._found=x}function Di(d,p,w,b,$,x,E,O,j,R){let D=E%2/2;k==1&&u.translate(D,D),xa(O,E,j,R,O),u.beginPath();let H,ee,me,pe,ae=$+(b==0||b==3?-x:x);w==0?(ee=$,pe=ae):(H=$,me=ae);for(let J=0;J<d.length;J++)p[J]!=null&&(w==0?H=me=d[J]:ee=pe=d[J],u.moveTo(H,ee),u.lineTo(me,pe));u.stroke(),k==1&&u.translate(-D,-D)}function xh(d){let p=!0;return N.forEach((w,b)=>{if(!w.show)return;let $=M[w.scale];if($.min==null){w._show&&(p=!1,w._show=!1,pr(!1));return}else w._show||(p=!1,w._show=!0,pr(!1));let x=w.side,E=x%2,{min:O,max:j}=$,[R,D]=yh(b,O,j,E==0?se:z);if(D==0)return;let H=$.distr==2,ee=w._splits=w.splits(r,b,O,j,R,D,H),me=$.distr==2?ee.map(F=>zt[F]):ee,pe=$.distr==2?zt[ee[1]]-zt[ee[0]]:R,ae=w._values=w.values(r,w.filter(r,me,b,D,pe),b,D,pe);w._rotate=x==2?w.rotate(r,ae,b,D):0;let J=w._size;w._size=Pt(w.size(r,ae,b,d)),J!=null&&w._size!=J&&(p=!1)}),p}function kh(d){let p=!0;return va.forEach((w,b)=>{let $=w(r,b,Pn,d);$!=fn[b]&&(p=!1),fn[b]=$}),p}function _h(){for(let d=0;d<N.length;d++){let p=N[d];if(!p.show||!p._show)continue;let w=p.side,b=w%2,$,x,E=p.stroke(r,d),O=w==0||w==3?-1:1,[j,R]=p._found;if(p.label!=null){let dt=p.labelGap*O,xt=Ge((p._lpos+dt)*ge);ka(p.labelFont[0],E,"center",w==2?"top":wc),u.save(),b==1?($=x=0,u.translate(xt,Ge(Ot+Dt/2)),u.rotate((w==3?-di:di)/2)):($=Ge($t+gt/2),x=xt);let zn=od(p.label)?p.label(r,d,j,R):p.label;u.fillText(zn,$,x),u.restore()}if(R==0)continue;let D=M[p.scale],H=b==0?gt:Dt,ee=b==0?$t:Ot,me=p._splits,pe=D.distr==2?me.map(dt=>zt[dt]):me,ae=D.distr==2?zt[me[1]]-zt[me[0]]:j,J=p.ticks,F=p.border,Te=J.show?J.size:0,De=Ge(Te*ge),tt=Ge((p.alignTo==2?p._size-Te-p.gap:p.gap)*ge),ke=p._rotate*-di/180,ze=S(p._pos*ge),vt=(De+tt)*O,ct=ze+vt;x=b==0?ct:0,$=b==1?ct:0;let Ct=p.font[0],Ht=p.align==1?Nr:p.align==2?Lo:ke>0?Nr:ke<0?Lo:b==0?"center":w==3?Lo:Nr,Xt=ke||b==1?"middle":w==2?"top":wc;ka(Ct,E,Ht,Xt);let yt=p.font[1]*p.lineGap,jt=me.map(dt=>S(l(dt,D,H,ee))),Ut=p._values;for(let dt=0;dt<Ut.length;dt++){let xt=Ut[dt];if(xt!=null){b==0?$=jt[dt]:x=jt[dt],xt=""+xt;let zn=xt.indexOf(`
`)==-1?[xt]:xt.split(/\n/gm);for(let ht=0;ht<zn.length;ht++){let qa=zn[ht];ke?(u.save(),u.translate($,x+ht*yt),u.rotate(ke),u.fillText(qa,0,0),u.restore()):u.fillText(qa,$,x+ht*yt)}}}J.show&&Di(jt,J.filter(r,pe,d,R,ae),b,w,ze,De,Se(J.width*ge,3),J.stroke(r,d),J.dash,J.cap);let en=p.grid;en.show&&Di(jt,en.filter(r,pe,d,R,ae),b,b==0?2:1,b==0?Ot:$t,b==0?Dt:gt,Se(en.width*ge,3),en.stroke(r,d),en.dash,en.cap),F.show&&Di([ze],[1],b==0?1:0,b==0?1:2,b==1?Ot:$t,b==1?Dt:gt,Se(F.width*ge,3),F.stroke(r,d),F.dash,F.cap)}et("drawAxes")}function pr(d){_.forEach((p,w)=>{w>0&&(p._paths=null,d&&(s==1?(p.min=null,p.max=null):p.facets.forEach(b=>{b.min=null,b.max=null})))})}let Ms=!1,zi=!1,qr=[];function Eh(){zi=!1;for(let d=0;d<qr.length;d++)et(...qr[d]);qr.length=0}function fr(){Ms||(Nf(Oa),Ms=!0)}function Sh(d,p=!1){Ms=!0,zi=p,d(r),Oa(),p&&qr.length>0&&queueMicrotask(Eh)}r.batch=Sh;function Oa(){if(Si&&(wh(),Si=!1),ar&&(dh(),ar=!1),ys){if(Ce(v,Nr,Me),Ce(v,"top",Ye),Ce(v,ps,se),Ce(v,fs,z),Ce(y,Nr,Me),Ce(y,"top",Ye),Ce(y,ps,se),Ce(y,fs,z),Ce(f,ps,sn),Ce(f,fs,Cn),m.width=Ge(sn*ge),m.height=Ge(Cn*ge),N.forEach(({_el:d,_show:p,_size:w,_pos:b,side:$})=>{if(d!=null)if(p){let x=$===3||$===0?w:0,E=$%2==1;Ce(d,E?"left":"top",b-x),Ce(d,E?"width":"height",w),Ce(d,E?"top":"left",E?Ye:Me),Ce(d,E?"height":"width",E?z:se),Wo(d,Xn)}else _t(d,Xn)}),_s=ur=Ai=Ci=ji=Ni=Ii=Li=Ti=null,wt=1,Jr(!0),Me!=or||Ye!=jn||se!=Jt||z!=Nn){pr(!1);let d=se/Jt,p=z/Nn;if(at&&!In&&V.left>=0){V.left*=d,V.top*=p,mr&&nn(mr,Ge(V.left),0,se,z),gr&&nn(gr,0,Ge(V.top),se,z);for(let w=0;w<Tt.length;w++){let b=Tt[w];b!=null&&(dr[w]*=d,hr[w]*=p,nn(b,Pt(dr[w]),Pt(hr[w]),se,z))}}if(Ae.show&&!xs&&Ae.left>=0&&Ae.width>0){Ae.left*=d,Ae.width*=d,Ae.top*=p,Ae.height*=p;for(let w in Bi)Ce($r,w,Ae[w])}or=Me,jn=Ye,Jt=se,Nn=z}et("setSize"),ys=!1}sn>0&&Cn>0&&(u.clearRect(0,0,m.width,m.height),et("drawClear"),q.forEach(d=>d()),et("draw")),Ae.show&&xs&&(Os(Ae),xs=!1),at&&In&&(Dn(null,!0,!1),In=!1),oe.show&&oe.live&&At&&(Fi(),At=!1),c||(c=!0,r.status=1,et("ready")),Br=!1,Ms=!1}r.redraw=(d,p)=>{ar=p||!1,d!==!1?gn(C,I.min,I.max):fr()};function Hi(d,p){let w=M[d];if(w.from==null){if(nt==0){let b=w.range(r,p.min,p.max,d);p.min=b[0],p.max=b[1]}if(p.min>p.max){let b=p.min;p.min=p.max,p.max=b}if(nt>1&&p.min!=null&&p.max!=null&&p.max-p.min<1e-16)return;d==C&&w.distr==2&&nt>0&&(p.min=qt(p.min,e[0]),p.max=qt(p.max,e[0]),p.min==p.max&&p.max++),Y[d]=p,Si=!0,fr()}}r.setScale=Hi;let Ui,Vi,mr,gr,Aa,Ta,wr,br,Ca,ja,Oe,Ie,mn=!1,rt=V.drag,Qe=rt.x,Xe=rt.y;at&&(V.x&&(Ui=Lt(nf,y)),V.y&&(Vi=Lt(rf,y)),I.ori==0?(mr=Ui,gr=Vi):(mr=Vi,gr=Ui),Oe=V.left,Ie=V.top);let Ae=r.select=Be({show:!0,over:!0,left:0,width:0,top:0,height:0},t.select),$r=Ae.show?Lt(tf,Ae.over?y:v):null;function Os(d,p){if(Ae.show){for(let w in d)Ae[w]=d[w],w in Bi&&Ce($r,w,d[w]);p!==!1&&et("setSelect")}}r.setSelect=Os;function Mh(d){if(_[d].show)qe&&Wo(Pe[d],Xn);else if(qe&&_t(Pe[d],Xn),at){let w=cr?Tt[0]:Tt[d];w!=null&&nn(w,-10,-10,se,z)}}function gn(d,p,w){Hi(d,{min:p,max:w})}function Zt(d,p,w,b){p.focus!=null&&jh(d),p.show!=null&&_.forEach(($,x)=>{x>0&&(d==x||d==null)&&($.show=p.show,Mh(x),s==2?(gn($.facets[0].scale,null,null),gn($.facets[1].scale,null,null)):gn($.scale,null,null),fr())}),w!==!1&&et("setSeries",d,p),b&&Kr("setSeries",r,d,p)}r.setSeries=Zt;function Oh(d,p){Be(P[d],p)}function Ah(d,p){d.fill=ce(d.fill||null),d.dir=fe(d.dir,-1),p=p??P.length,P.splice(p,0,d)}function Th(d){d==null?P.length=0:P.splice(d,1)}r.addBand=Ah,r.setBand=Oh,r.delBand=Th;function Ch(d,p){_[d].alpha=p,at&&Tt[d]!=null&&(Tt[d].style.opacity=p),qe&&Pe[d]&&(Pe[d].style.opacity=p)}let on,wn,Rn,vr={focus:!0};function jh(d){if(d!=Rn){let p=d==null,w=Kt.alpha!=1;_.forEach((b,$)=>{if(s==1||$>0){let x=p||$==0||$==d;b._focus=p?null:x,w&&Ch($,x?1:Kt.alpha)}}),Rn=d,w&&fr()}}qe&&lr&&lt(yc,we,d=>{V._lock||(Ln(d),Rn!=null&&Zt(null,vr,!0,Fe.setSeries))});function Qt(d,p,w){let b=M[p];w&&(d=d/ge-(b.ori==1?Ye:Me));let $=se;b.ori==1&&($=z,d=$-d),b.dir==-1&&(d=$-d);let x=b._min,E=b._max,O=d/$,j=x+(E-x)*O,R=b.distr;return R==3?Pr(10,j):R==4?yf(j,b.asinh):R==100?b.bwd(j):j}function Nh(d,p){let w=Qt(d,C,p);return qt(w,e[0],Ke,Ze)}r.valToIdx=d=>qt(d,e[0]),r.posToIdx=Nh,r.posToVal=Qt,r.valToPos=(d,p,w)=>M[p].ori==0?i(d,M[p],w?gt:se,w?$t:0):o(d,M[p],w?Dt:z,w?Ot:0),r.setCursor=(d,p,w)=>{Oe=d.left,Ie=d.top,Dn(null,p,w)};function Na(d,p){Ce($r,Nr,Ae.left=d),Ce($r,ps,Ae.width=p)}function Ia(d,p){Ce($r,"top",Ae.top=d),Ce($r,fs,Ae.height=p)}let Yr=I.ori==0?Na:Ia,Gr=I.ori==1?Na:Ia;function Ih(){if(qe&&oe.live)for(let d=s==2?1:0;d<_.length;d++){if(d==0&&Mt)continue;let p=oe.values[d],w=0;for(let b in p)Gt[d][w++].firstChild.nodeValue=p[b]}}function Fi(d,p){if(d!=null&&(d.idxs?d.idxs.forEach((w,b)=>{xe[b]=w}):Ef(d.idx)||xe.fill(d.idx),oe.idx=xe[0]),qe&&oe.live){for(let w=0;w<_.length;w++)(w>0||s==1&&!Mt)&&Lh(w,xe[w]);Ih()}At=!1,p!==!1&&et("setLegend")}r.setLegend=Fi;function Lh(d,p){let w=_[d],b=d==0&&ne==2?zt:e[d],$;Mt?$=w.values(r,d,p)??pn:($=w.value(r,p==null?null:b[p],d,p),$=$==null?pn:{_:$}),oe.values[d]=$}function Dn(d,p,w){Ca=Oe,ja=Ie,[Oe,Ie]=V.move(r,Oe,Ie),V.left=Oe,V.top=Ie,at&&(mr&&nn(mr,Ge(Oe),0,se,z),gr&&nn(gr,0,Ge(Ie),se,z));let b,$=Ke>Ze;on=Ee,wn=null;let x=I.ori==0?se:z,E=I.ori==1?se:z;if(Oe<0||nt==0||$){b=V.idx=null;for(let O=0;O<_.length;O++){let j=Tt[O];j!=null&&nn(j,-10,-10,se,z)}lr&&Zt(null,vr,!0,d==null&&Fe.setSeries),oe.live&&(xe.fill(b),At=!0)}else{let O,j,R;s==1&&(O=I.ori==0?Oe:Ie,j=Qt(O,C),b=V.idx=qt(j,e[0],Ke,Ze),R=U(e[0][b],I,x,0));let D=-10,H=-10,ee=0,me=0,pe=!0,ae="",J="";for(let F=s==2?1:0;F<_.length;F++){let Te=_[F],De=xe[F],tt=De==null?null:s==1?e[F][De]:e[F][1][De],ke=V.dataIdx(r,F,b,j),ze=ke==null?null:s==1?e[F][ke]:e[F][1][ke];if(At=At||ze!=tt||ke!=De,xe[F]=ke,F>0&&Te.show){let vt=ke==null?-10:ke==b?R:U(s==1?e[0][ke]:e[F][0][ke],I,x,0),ct=ze==null?-10:X(ze,s==1?M[Te.scale]:M[Te.facets[1].scale],E,0);if(lr&&ze!=null){let Ct=I.ori==1?Oe:Ie,Ht=Je(Kt.dist(r,F,ke,ct,Ct));if(Ht<on){let Xt=Kt.bias;if(Xt!=0){let yt=Qt(Ct,Te.scale),jt=ze>=0?1:-1,Ut=yt>=0?1:-1;Ut==jt&&(Ut==1?Xt==1?ze>=yt:ze<=yt:Xt==1?ze<=yt:ze>=yt)&&(on=Ht,wn=F)}else on=Ht,wn=F}}if(At||cr){let Ct,Ht;I.ori==0?(Ct=vt,Ht=ct):(Ct=ct,Ht=vt);let Xt,yt,jt,Ut,en,dt,xt=!0,zn=ot.bbox;if(zn!=null){xt=!1;let ht=zn(r,F);jt=ht.left,Ut=ht.top,Xt=ht.width,yt=ht.height}else jt=Ct,Ut=Ht,Xt=yt=ot.size(r,F);if(dt=ot.fill(r,F),en=ot.stroke(r,F),cr)F==wn&&on<=Kt.prox&&(D=jt,H=Ut,ee=Xt,me=yt,pe=xt,ae=dt,J=en);else{let ht=Tt[F];ht!=null&&(dr[F]=jt,hr[F]=Ut,Oc(ht,Xt,yt,xt),Sc(ht,dt,en),nn(ht,Pt(jt),Pt(Ut),se,z))}}}}if(cr){let F=Kt.prox,Te=Rn==null?on<=F:on>F||wn!=Rn;if(At||Te){let De=Tt[0];De!=null&&(dr[0]=D,hr[0]=H,Oc(De,ee,me,pe),Sc(De,ae,J),nn(De,Pt(D),Pt(H),se,z))}}}if(Ae.show&&mn)if(d!=null){let[O,j]=Fe.scales,[R,D]=Fe.match,[H,ee]=d.cursor.sync.scales,me=d.cursor.drag;if(Qe=me._x,Xe=me._y,Qe||Xe){let{left:pe,top:ae,width:J,height:F}=d.select,Te=d.scales[H].ori,De=d.posToVal,tt,ke,ze,vt,ct,Ct=O!=null&&R(O,H),Ht=j!=null&&D(j,ee);Ct&&Qe?(Te==0?(tt=pe,ke=J):(tt=ae,ke=F),ze=M[O],vt=U(De(tt,H),ze,x,0),ct=U(De(tt+ke,H),ze,x,0),Yr(Yt(vt,ct),Je(ct-vt))):Yr(0,x),Ht&&Xe?(Te==1?(tt=pe,ke=J):(tt=ae,ke=F),ze=M[j],vt=X(De(tt,ee),ze,E,0),ct=X(De(tt+ke,ee),ze,E,0),Gr(Yt(vt,ct),Je(ct-vt))):Gr(0,E)}else qi()}else{let O=Je(Ca-Aa),j=Je(ja-Ta);if(I.ori==1){let ee=O;O=j,j=ee}Qe=rt.x&&O>=rt.dist,Xe=rt.y&&j>=rt.dist;let R=rt.uni;R!=null?Qe&&Xe&&(Qe=O>=R,Xe=j>=R,!Qe&&!Xe&&(j>O?Xe=!0:Qe=!0)):rt.x&&rt.y&&(Qe||Xe)&&(Qe=Xe=!0);let D,H;Qe&&(I.ori==0?(D=wr,H=Oe):(D=br,H=Ie),Yr(Yt(D,H),Je(H-D)),Xe||Gr(0,E)),Xe&&(I.ori==1?(D=wr,H=Oe):(D=br,H=Ie),Gr(Yt(D,H),Je(H-D)),Qe||Yr(0,x)),!Qe&&!Xe&&(Yr(0,0),Gr(0,0))}if(rt._x=Qe,rt._y=Xe,d==null){if(w){if(Ba!=null){let[O,j]=Fe.scales;Fe.values[0]=O!=null?Qt(I.ori==0?Oe:Ie,O):null,Fe.values[1]=j!=null?Qt(I.ori==1?Oe:Ie,j):null}Kr(Po,r,Oe,Ie,se,z,b)}if(lr){let O=w&&Fe.setSeries,j=Kt.prox;Rn==null?on<=j&&Zt(wn,vr,!0,O):on>j?Zt(null,vr,!0,O):wn!=Rn&&Zt(wn,vr,!0,O)}}At&&(oe.idx=b,Fi()),p!==!1&&et("setCursor")}let bn=null;Object.defineProperty(r,"rect",{get(){return bn==null&&Jr(!1),bn}});function Jr(d=!1){d?bn=null:(bn=y.getBoundingClientRect(),et("syncRect",bn))}function La(d,p,w,b,$,x,E){V._lock||mn&&d!=null&&d.movementX==0&&d.movementY==0||(Wi(d,p,w,b,$,x,E,!1,d!=null),d!=null?Dn(null,!0,!0):Dn(p,!0,!1))}function Wi(d,p,w,b,$,x,E,O,j){if(bn==null&&Jr(!1),Ln(d),d!=null)w=d.clientX-bn.left,b=d.clientY-bn.top;else{if(w<0||b<0){Oe=-10,Ie=-10;return}let[R,D]=Fe.scales,H=p.cursor.sync,[ee,me]=H.values,[pe,ae]=H.scales,[J,F]=Fe.match,Te=p.axes[0].side%2==1,De=I.ori==0?se:z,tt=I.ori==1?se:z,ke=Te?x:$,ze=Te?$:x,vt=Te?b:w,ct=Te?w:b;if(pe!=null?w=J(R,pe)?l(ee,M[R],De,0):-10:w=De*(vt/ke),ae!=null?b=F(D,ae)?l(me,M[D],tt,0):-10:b=tt*(ct/ze),I.ori==1){let Ct=w;w=b,b=Ct}}j&&(p==null||p.cursor.event.type==Po)&&((w<=1||w>=se-1)&&(w=Zn(w,se)),(b<=1||b>=z-1)&&(b=Zn(b,z))),O?(Aa=w,Ta=b,[wr,br]=V.move(r,w,b)):(Oe=w,Ie=b)}let Bi={width:0,height:0,left:0,top:0};function qi(){Os(Bi,!1)}let Pa,Ra,Da,za;function Ha(d,p,w,b,$,x,E){mn=!0,Qe=Xe=rt._x=rt._y=!1,Wi(d,p,w,b,$,x,E,!0,!1),d!=null&&(lt(Ro,Vo,Ua,!1),Kr($c,r,wr,br,se,z,null));let{left:O,top:j,width:R,height:D}=Ae;Pa=O,Ra=j,Da=R,za=D}function Ua(d,p,w,b,$,x,E){mn=rt._x=rt._y=!1,Wi(d,p,w,b,$,x,E,!1,!0);let{left:O,top:j,width:R,height:D}=Ae,H=R>0||D>0,ee=Pa!=O||Ra!=j||Da!=R||za!=D;if(H&&ee&&Os(Ae),rt.setScale&&H&&ee){let me=O,pe=R,ae=j,J=D;if(I.ori==1&&(me=j,pe=D,ae=O,J=R),Qe&&gn(C,Qt(me,C),Qt(me+pe,C)),Xe)for(let F in M){let Te=M[F];F!=C&&Te.from==null&&Te.min!=Ee&&gn(F,Qt(ae+J,F),Qt(ae,F))}qi()}else V.lock&&(V._lock=!V._lock,Dn(p,!0,d!=null));d!=null&&(ir(Ro,Vo),Kr(Ro,r,Oe,Ie,se,z,null))}function Ph(d,p,w,b,$,x,E){if(V._lock)return;Ln(d);let O=mn;if(mn){let j=!0,R=!0,D=10,H,ee;I.ori==0?(H=Qe,ee=Xe):(H=Xe,ee=Qe),H&&ee&&(j=Oe<=D||Oe>=se-D,R=Ie<=D||Ie>=z-D),H&&j&&(Oe=Oe<wr?0:se),ee&&R&&(Ie=Ie<br?0:z),Dn(null,!0,!0),mn=!1}Oe=-10,Ie=-10,xe.fill(null),Dn(null,!0,!0),O&&(mn=O)}function Va(d,p,w,b,$,x,E){V._lock||(Ln(d),Oi(),qi(),d!=null&&Kr(xc,r,Oe,Ie,se,z,null))}function Fa(){N.forEach(Um),Mi(r.width,r.height,!0)}er(hi,Lr,Fa);let yr={};yr.mousedown=Ha,yr.mousemove=La,yr.mouseup=Ua,yr.dblclick=Va,yr.setSeries=(d,p,w,b)=>{let $=Fe.match[2];w=$(r,p,w),w!=-1&&Zt(w,b,!0,!1)},at&&(lt($c,y,Ha),lt(Po,y,La),lt(vc,y,d=>{Ln(d),Jr(!1)}),lt(yc,y,Ph),lt(xc,y,Va),Ko.add(r),r.syncRect=Jr);let As=r.hooks=t.hooks||{};function et(d,p,w){zi?qr.push([d,p,w]):d in As&&As[d].forEach(b=>{b.call(null,r,p,w)})}(t.plugins||[]).forEach(d=>{for(let p in d.hooks)As[p]=(As[p]||[]).concat(d.hooks[p])});let Wa=(d,p,w)=>w,Fe=Be({key:null,setSeries:!1,filters:{pub:Nc,sub:Nc},scales:[C,_[1]?_[1].scale:null],match:[Ic,Ic,Wa],values:[null,null]},V.sync);Fe.match.length==2&&Fe.match.push(Wa),V.sync=Fe;let Ba=Fe.key,Yi=Td(Ba);function Kr(d,p,w,b,$,x,E){Fe.filters.pub(d,p,w,b,$,x,E)&&Yi.pub(d,p,w,b,$,x,E)}Yi.sub(r);function Rh(d,p,w,b,$,x,E){Fe.filters.sub(d,p,w,b,$,x,E)&&yr[d](null,p,w,b,$,x,E)}r.pub=Rh;function Dh(){Yi.unsub(r),Ko.delete(r),Tn.clear(),Bo(hi,Lr,Fa),h.remove(),we?.remove(),et("destroy")}r.destroy=Dh;function Gi(){et("init",t,e),ya(e||t.data,!1),Y[C]?Hi(C,Y[C]):Oi(),xs=Ae.show&&(Ae.width>0||Ae.height>0),In=At=!0,Mi(t.width,t.height)}return _.forEach($a),N.forEach(gh),n?n instanceof HTMLElement?(n.appendChild(h),Gi()):n(r,Gi):Gi(),r}it.assign=Be;it.fmtNum=ra;it.rangeNum=ui;it.rangeLog=mi;it.rangeAsinh=ta;it.orient=nr;it.pxRatio=ge;it.join=jf;it.fmtDate=ia,it.tzDate=Ff;it.sync=Td;{it.addGap=Em,it.clipGaps=bi;let t=it.paths={points:Pd};t.linear=Dd,t.stepped=Om,t.bars=Am,t.spline=Cm}var Vd=12,Fd=[[],[6,4],[2,3],[10,4,2,4]],ua=class extends He{static properties={rows:{attribute:!1},columns:{attribute:!1},x:{attribute:!1},name:{attribute:!1}};createRenderRoot(){return this}connectedCallback(){super.connectedCallback(),this.redraw=()=>this.draw(),this.resizing=new ResizeObserver(()=>{this.plot&&Math.abs(this.plot.width-this.clientWidth)>2&&this.draw()}),this.resizing.observe(this),addEventListener("whyrun-theme",this.redraw)}disconnectedCallback(){super.disconnectedCallback(),this.resizing.disconnect(),removeEventListener("whyrun-theme",this.redraw),this.plot?.destroy(),this.plot=null}render(){return a`${this.columns.length>1?a`<div class="tags" role="group" aria-label="Horizontal axis">
${this.columns.map(e=>a`<button
type="button"
class="tag"
aria-pressed=${e===this.x?"true":"false"}
@click=${()=>this.dispatchEvent(new CustomEvent("axis",{detail:e}))}
>
by ${e}
</button>`)}
</div>`:g}
<div class="plot" role="img" aria-label="${this.name} by ${this.x}; the table below has the numbers"></div>
<p class="soft plot-left"></p>`}updated(){this.draw()}series(){let e=Math.max(this.columns.indexOf(this.x),0),n=this.rows.filter(l=>typeof l.value=="number"),r=n.every(l=>typeof l.index[e]=="number"),s=[...new Set(n.map(l=>l.index[e]))];r&&s.sort((l,c)=>l-c);let i=new Map(s.map((l,c)=>[l,c])),o=new Map;for(let l of n){let c=l.index.filter((h,m)=>m!==e).map((h,m)=>`${this.columns.filter((u,f)=>f!==e)[m]} ${h}`).join(", ");o.has(c)||o.set(c,Array(s.length).fill(null)),o.get(c)[i.get(l.index[e])]=l.value}return{places:s,numeric:r,groups:[...o].slice(0,Vd),left:Math.max(o.size-Vd,0)}}draw(){let e=this.querySelector(".plot");if(!e||!this.clientWidth)return;this.plot?.destroy();let{places:n,numeric:r,groups:s,left:i}=this.series();if(this.querySelector(".plot-left").textContent=i?`The first ${s.length} of ${s.length+i} lines are drawn.`:"",!s.length)return;let o=f=>{e.style.color=`var(--${f})`;let v=getComputedStyle(e).color;return e.style.removeProperty("color"),v},[l,c]=[o("soft"),o("line")],h=["accent","run","ok","reuse","bad","wait"].map(o),m=`12px ${getComputedStyle(document.body).fontFamily}`,u={stroke:l,grid:{stroke:c,width:1},ticks:{stroke:c,width:1},font:m};this.plot=new it({width:this.clientWidth,height:260,legend:{show:s.length>1,live:!1},cursor:{drag:{x:!1,y:!1}},scales:{x:{time:!1,range:(f,v,y)=>v===y?[v-1,y+1]:[v-(y-v)*.02,y+(y-v)*.02]}},axes:[{...u,label:this.x,labelFont:m,labelSize:20,...r?n.every(Number.isInteger)?{incrs:[1,2,5,10,20,50,100,200,500,1e3,5e3,1e4]}:{}:{splits:()=>n.map((f,v)=>v),values:(f,v)=>v.map(y=>n[y]??"")}},{...u,size:64}],series:[{label:this.x,value:(f,v)=>r?v:n[v]??""},...s.map(([f],v)=>({label:f||this.name,stroke:h[v%h.length],width:1.6,dash:Fd[Math.floor(v/h.length)%Fd.length],points:{show:!0,size:6},spanGaps:!0}))]},[r?n:n.map((f,v)=>v),...s.map(([,f])=>f)],e)}};customElements.define("wr-plot",ua);var pa=500,Vm=12;function Bd(t){let e=t.read("results");return a`<h1>Results</h1>
${ve(e,({patterns:n=[]})=>{let r=Fm(n);if(!r.size)return _e("This workflow has no results over loops.","Declare leaves of a JSON output in a job with a loop; each becomes a column here.");let s=r.has(t.params.of)?t.params.of:[...r.keys()][0];return a`${r.size>1?a`<div class="filters">
<label class="field"
><span class="sr">Results of</span
><select @change=${i=>Ve({of:i.target.value,sort:null,x:null,y:null})}>
${[...r.keys()].map(i=>a`<option value=${i} ?selected=${i===s}>${Wd(i)}</option>`)}
</select></label
>
</div>`:g}
${ve(t.read("results",{pattern:r.get(s).slice(0,Vm)}),i=>Wm(t,i,Wd(s)))}`})}`}function Fm(t){let e=new Map;for(let n of t){let r=/^Artifact:[^.]+\.[^.[]+(\[\*\])*/.exec(n)?.[0]??n;e.has(r)||e.set(r,[]),e.get(r).push(n)}return e}function Wm(t,e,n){let{loops:r=[],columns:s=[],rows:i=[]}=e.answer??{};if(!i.length)return _e("Nothing has this result yet.","Run the workflow first.");let{sort:o}=t.params,l=Ym(i,o),c=s.map((u,f)=>l.some(v=>typeof v.values[f]=="number")),h=Math.max(s.indexOf(t.params.y),0),m=(u,f,v)=>a`<th
class=${v?"num":""}
aria-sort=${o===f?"ascending":o===`-${f}`?"descending":"none"}
>
<button type="button" @click=${()=>Ve({sort:o===f?`-${f}`:f})}>${u}</button>
</th>`;return a`${c[h]&&r.length&&l.length>1?a`${s.filter((u,f)=>c[f]).length>1?a`<div class="tags" role="group" aria-label="Vertical axis">
${s.map((u,f)=>c[f]?a`<button
type="button"
class="tag"
aria-pressed=${f===h?"true":"false"}
@click=${()=>Ve({y:u})}
>
${u}
</button>`:g)}
</div>`:g}
<wr-plot
.rows=${Bm(i,h)}
.columns=${r}
.x=${t.params.x??r.at(-1)}
.name=${s[h]}
@axis=${u=>Ve({x:u.detail})}
></wr-plot>`:g}
<p class="table-head soft">
<span>${Z(l.length,"row")} of ${n}</span>${kn(()=>Gm(r,s,l),"Copy as CSV")}
</p>
<div class="scroll" tabindex="0" role="region" aria-label="Results">
<table class="table narrow">
<thead>
<tr>
${r.map((u,f)=>m(u,`i${f}`,l.every(v=>typeof v.index[f]=="number")))}${s.map((u,f)=>m(u.startsWith(`${n}.`)?u.slice(n.length+1):u,`v${f}`,c[f]))}
<th>Run</th>
</tr>
</thead>
<tbody>
${l.slice(0,pa).map(u=>a`<tr data-id=${u.artifacts[0]}>
${u.index.map(f=>a`<td class=${typeof f=="number"?"num":""}>${String(f)}</td>`)}
${u.values.map((f,v)=>a`<td class=${c[v]?"num":""} data-id=${u.artifacts[v]} data-state=${u.states[v]}>
<a class="id" href=${yn(u.artifacts[v])} title=${u.artifacts[v]}
>${u.states[v]==="available"?qm(f):a`<span class="soft">${G(u.states[v]).word}</span>`}</a
>
</td>`)}
<td>
${[...new Set(u.runs.filter(Boolean))].map((f,v)=>a`${v?", ":""}<a href=${T("run",f)}>${f}</a>`)}
</td>
</tr>`)}
</tbody>
</table>
</div>
${l.length>pa?a`<p class="soft">and ${L(l.length-pa)} more; the copy has them all</p>`:g}${$e(t.command(e.command))}`}var fa=new WeakMap;function Bm(t,e){fa.has(t)||fa.set(t,new Map);let n=fa.get(t);return n.has(e)||n.set(e,t.map(r=>({index:r.index,value:r.values[e]}))),n.get(e)}var Wd=t=>t.replace(/^Artifact:/,"").replace(/\[\*\]/g,""),qm=t=>typeof t=="number"?Number.isInteger(t)?String(t):Number(t.toPrecision(6)).toString():t==null?"–":typeof t=="string"?t:JSON.stringify(t);function Ym(t,e){if(!e)return t;let n=e.replace(/^-/,""),r=Number(n.slice(1)),s=o=>n.startsWith("v")?o.values[r]:o.index[r],i=(o,l)=>{let[c,h]=[s(o),s(l)],m=Number(c)-Number(h);return Number.isFinite(m)?m:String(c).localeCompare(String(h),"en",{numeric:!0})};return[...t].sort((o,l)=>e.startsWith("-")?i(l,o):i(o,l))}function Gm(t,e,n){let r=s=>{let i=typeof s=="string"?s:s==null?"":typeof s=="object"?JSON.stringify(s):String(s);return typeof s=="string"&&/^[=+\-@\t\r]/.test(i)&&(i=`'${i}`),/[",\n\r]/.test(i)?`"${i.replaceAll('"','""')}"`:i};return[[...t,...e],...n.map(s=>[...s.index,...s.values])].map(s=>s.map(r).join(",")).join(`\r
`)}var ma=40;function qd(t){if(!t.live)return a`<h1>What if</h1>
${_e("A report answers no new questions.","whyrun view does.")}`;let e=Jm(t.params),n=e.assume.length||e.force.length||e.target.length||e.up,r=t.read("graph").value,s=n?t.read("whatif",e):null,i=s?.value?.states&&r?Xm(s.value.states,r):null;return a`<h1>What if</h1>
<p class="soft">See what would run before you change anything. Nothing is executed, and nothing is written.</p>
<div class="whatif wide">
<div class="questions">${Km(t,r,e)}${Qm(t,r,e,n)}</div>
<div class="answers">
${s?ve(s,o=>eg(t,o)):_e("Choose what to try.","Mark an input as changed, or give it another value. Or force a job: then it runs although it is up to date.")}
${r&&i?a`<div class="canvas inset">
<wr-graph .graph=${r} .overlay=${i} .url=${t.url}></wr-graph>
</div>`:g}
${s?.value?tg(s.value):g}${$e(t.command(s?s.value?.command:t.state.explain))}
</div>
</div>`}function Jm(t){let e=n=>{try{let r=JSON.parse(t[n]??"[]");return Array.isArray(r)?r.map(String):[]}catch{return t[n]?[t[n]]:[]}};return{assume:e("assume"),force:e("force"),target:e("target"),up:t.up}}function xi(t){let e={up:t.up};for(let n of["assume","force","target"])t[n].length&&(e[n]=JSON.stringify(t[n]));location.hash=T("whatif",e)}function Km(t,e,n){if(!e?.inputs?.length)return g;let r=(s,i)=>{let o=n.assume.filter(l=>!l.startsWith(`${s}=`));xi({...n,assume:i===null?o:[...o,`${s}=${i}`]})};return a`<fieldset>
<legend>Inputs</legend>
${e.inputs.slice(0,60).map(s=>{let i=n.assume.find(l=>l.startsWith(`${s.id}=`))?.slice(s.id.length+1),o="value"in s&&s.value!==void 0;return a`<div class="question" data-id=${s.id}>
<label
><input
type="checkbox"
.checked=${i!==void 0}
@change=${l=>r(s.id,l.target.checked?"changed":null)}
/><span class="id">${be(s.id,{kind:!1})}</span></label
>
${o?a`<input
type="text"
class="literal"
aria-label="Value of ${s.id}"
placeholder=${JSON.stringify(s.value).slice(0,40)}
.value=${i!==void 0&&i!=="changed"?i:""}
@change=${l=>r(s.id,l.target.value===""?null:l.target.value)}
/>`:a`<span class="soft"
>${s.elements!==void 0?Z(s.elements,Zm(s.type)):s.type}</span
>`}
</div>`})}
</fieldset>`}var Zm=t=>/^(file|image)\b/.test(t)?"file":t.startsWith("directory")?"folder":"element";function Qm(t,e,n,r){if(!e?.nodes?.length)return g;let s=(i,o)=>xi({...n,[i]:n[i].includes(o)?n[i].filter(l=>l!==o):[...n[i],o]});return a`<fieldset>
<legend>Jobs</legend>
${e.nodes.slice(0,80).map(i=>a`<div class="question" data-id=${i.pattern}>
<span class="id">${be(i.job)}</span
><span class="picks">
<label
><input
type="checkbox"
.checked=${n.force.includes(i.pattern)}
@change=${()=>s("force",i.pattern)}
/>force</label
>
<label
><input
type="checkbox"
.checked=${n.target.includes(i.pattern)}
@change=${()=>s("target",i.pattern)}
/>only this</label
></span
>
</div>`)}
</fieldset>
<fieldset>
<legend>How far</legend>
<div class="question last">
<label for="up">Only the first layers</label
><input
id="up"
type="number"
min="1"
class="literal"
placeholder="all"
.value=${n.up??""}
@change=${i=>xi({...n,up:i.target.value||void 0})}
/>
</div>
${r?a`<button type="button" class="button" @click=${()=>xi({assume:[],force:[],target:[]})}>
Clear
</button>`:g}
</fieldset>`}function Xm(t,{nodes:e}){let n={};for(let r of e)n[r.job]=t[r.job]?Vs(t[r.job]):r.states;return n}function eg(t,e){let{totals:n}=e,r=t.state.totals,s={planned:n.planned,reused:n.reused,deferred:n.deferred,inactive:n.inactive,clean:n.clean},i=n.planned-(r?.planned??0);return a`<section class="verdict-box" data-same=${e.same_as_now?"true":"false"}>
<h2 class="plain-head">
${e.same_as_now?"Nothing else than now":`${L(n.planned)} of ${Z(n.jobs,"job")} would run`}
</h2>
<p class="soft">
${e.same_as_now?g:i>0?`${L(i)} more than now`:i<0?`${L(-i)} fewer than now`:"as many as now"}${e.estimate===null||e.estimate===void 0?g:` · about ${ie(e.estimate)}`}
</p>
${xn(s)} ${Ws(s)}
${e.assuming?.length?Wt([["assumed",a`${e.assuming.map(o=>a`<code class="line-block">${o}</code>`)}`]]):g}${(e.notes??[]).map(o=>a`<p class="soft">${o}</p>`)}
</section>`}function tg({answer:{layers:t=[]}={}}){let e=t.flatMap(n=>n.jobs);return e.length?a`<ul class="instances">
${e.slice(0,ma).map(n=>a`<li data-id=${n.id} data-code=${n.reasons?.[0]?.code??g}>
<span class="mark">${he(n.reuse?"reused":"planned")}</span
><span class="row-main"
><a class="id" href=${T("why",n.id)}>${be(n.id,{kind:!1})}</a>
<span class="row-text"
><b>${st(n.reasons?.[0]?.code??"")}</b> ${n.reasons?.[0]?.text??""}</span
></span
><span></span>
</li>`)}
</ul>
${e.length>ma?a`<p class="soft">and ${L(e.length-ma)} more</p>`:g}`:g}var un=100;function Kd(t){let e=(t.state.runs??[]).map(i=>i.run),[n=e.at(-2),r=e.at(-1)]=t.route.args;if(!n||!r)return a`<h1>Compare</h1>
${_e("Two runs are needed to compare.","Run the workflow again after a change.")}`;let s=(i,o,l)=>a`<label class="field"
><span class="soft">${o}</span
><select @change=${c=>l(c.target.value)}>
${[...new Set([...e,i])].map(c=>a`<option ?selected=${c===i}>${c}</option>`)}
</select></label
>`;return a`<h1>Compare ${n} with ${r}</h1>
<div class="filters narrow">
${s(n,"from",i=>{location.hash=T("diff",i,r)})}${s(r,"to",i=>{location.hash=T("diff",n,i)})}
</div>
${ve(t.read("diff",{old:n,new:r}),i=>ng(t,i,n,r))}`}function ng(t,e,n,r){let{jobs:s=[],reasons:i=[],inputs:o=[],actions:l=[],artifacts:c=[],same:h}=e.answer,m=[["jobs",s],["reasons",i],["inputs",o],["actions",l],["artifacts",c]].filter(([,u])=>u.length);return a`<div class="columns runs-pair">
${(e.runs??[]).map(u=>a`<div class="card">
<p class="card-title">
<a href=${T("run",u.run)}>${u.run}</a>
<span class="tone-${G(u.state).tone}">${he(u.state)} ${u.state}</span>
</p>
<p class="soft">${Mn(u)} · ${ie(u.duration)}</p>
</div>`)}
</div>
<p class="verdict">
${h?"They do not differ.":a`They differ in
${m.map(([u,f],v)=>a`${v?v===m.length-1?" and ":", ":""}<b
data-differs=${u}
data-count=${f.length}
>${L(f.length)} ${f.length===1?u.slice(0,-1):u}</b
>`)}.`}
</p>
${rg(t,e,n,r)}
${o.length?te("Inputs",Gd(o,u=>u)):g}${l.length?te("Actions",Gd(l)):g}
${i.length?te("Reasons",a`<ul class="instances">
${i.slice(0,un).map(u=>a`<li data-id=${u.id}>
<span></span
><span class="row-main"
>${W(u.id,{kind:!1})}<span class="row-text"
>${u.old?st(u.old):"not planned"} →
<b>${u.new?st(u.new):"not planned"}</b></span
></span
><span></span>
</li>`)}
</ul>
${ki(i)}`):g}
${s.length?te("Jobs",a`<ul class="instances">
${s.slice(0,un).map(u=>a`<li data-id=${u.id}>
<span></span
><span class="row-main"
>${W(u.id,{kind:!1})}<span class="row-text"
>${Yd(u.old)} → <b>${Yd(u.new)}</b></span
></span
><span></span>
</li>`)}
</ul>
${ki(s)}`):g}
${sg(e.durations)}${$e(t.command(e.command))}`}var Yd=t=>t?t==="planned"?"planned":G(t).word:"not planned",ki=t=>t.length>un?a`<p class="soft">and ${L(t.length-un)} more</p>`:g,Gd=t=>a`<ul class="instances">
${t.slice(0,un).map(e=>a`<li data-id=${e.id}>
<span></span
><span class="row-main"
>${W(e.id)}<span class="values">${Jd(e.old,"was")} → ${Jd(e.new,"is")}</span></span
><span></span>
</li>`)}
</ul>
${ki(t)}`,Jd=(t,e)=>t==null?a`<span class="soft">nothing</span>`:"value"in t?a`<span class=${e}>${Le(t.value)}</span>`:a`<code>${Ue(t.sha256)}</code>`;function rg(t,e,n,r){let s=e.contents?.length?e.contents:e.answer.artifacts??[];if(!s.length)return g;let i=s.find(c=>c.id===t.params.show)??s.find(c=>c.old&&c.new&&(c.new.kind==="image"||c.old.kind==="image"))??s[0],o=(e.answer.inputs??[]).find(c=>c.id===i.id&&"value"in(c.new??c.old??{})),l=i?.old?.sha256&&i?.new?.sha256&&i.old.sha256!==i.new.sha256&&i.old.kept!==!1&&i.new.kept!==!1;return te("What came out differently",a`<div class="content-pair">
<ul class="jobs choose">
${s.slice(0,un).map(c=>a`<li data-id=${c.id}>
<button
type="button"
aria-pressed=${c===i?"true":"false"}
@click=${()=>Ve({show:c.id})}
>
${be(c.id,{kind:!1})}
</button>
<span class="soft"
>${c.old?.size!==void 0&&c.new?.size!==void 0?`${Re(c.old.size)} → ${Re(c.new.size)}`:c.old?c.new?g:"gone":"new"}</span
>
</li>`)}${s.length>un?a`<li class="soft">and ${L(s.length-un)} more</li>`:g}
</ul>
<div class="content-shown">
${o?Tr({old:o.old,new:o.new},{url:t.url}):l&&t.live?ve(t.read("content",{id:i.id,old:i.old.sha256,new:i.new.sha256}),c=>jr(t,c,n,r)):l?jr(t,{old:i.old,new:i.new},n,r):a`<p class="soft">
${i.old?i.new?"The bytes of one of the two are not kept.":`${n} has it, ${r} has not.`:`${r} has it, ${n} has not.`}
</p>`}
</div>
</div>`)}function sg(t){let e=(t??[]).filter(n=>n.old!==null&&n.new!==null&&n.old!==void 0&&n.new!==void 0).sort((n,r)=>Math.abs(r.new-r.old)-Math.abs(n.new-n.old));return e.length?te("How long it took",a`<div class="scroll">
<table class="table small">
<thead>
<tr>
<th>Job</th>
<th class="num">before</th>
<th class="num">after</th>
<th class="num">change</th>
</tr>
</thead>
<tbody>
${e.slice(0,un).map(n=>a`<tr>
<td>${W(n.id,{kind:!1})}</td>
<td class="num">${ie(n.old)}</td>
<td class="num">${ie(n.new)}</td>
<td class="num">${n.new>=n.old?"+":"−"}${ie(Math.abs(n.new-n.old))}</td>
</tr>`)}
</tbody>
</table>
</div>
${ki(e)}`):g}var ga=300;function Zd(t){let e=t.route.args[0];return e?a`<p class="way"><a href=${T("lineage")}>${le.back}Choose another</a></p>
<h1>Where it comes from</h1>
<p class="id-title">${be(e)}</p>
${ve(t.read("lineage",{id:e}),n=>ag(t,n))}`:ig(t)}function ig(t){let e=t.read("artifacts",{page:0}),n=t.read("graph").value;return a`<h1>Lineage</h1>
<p class="soft">Choose a result to follow it back to its inputs and its code.</p>
<div class="columns">
${te("Artifacts",ve(e,r=>r.rows.length?a`<ul class="jobs">
${r.rows.slice(0,100).map(s=>a`<li data-id=${s.id}>
${W(s.id,{kind:!1,href:T("lineage",s.id)})}<span class="soft"
>${s.type}</span
>
</li>`)}
</ul>`:_e("There are no artifacts yet.")))}
${n?.inputs?.length?te("Inputs",a`<ul class="jobs">
${n.inputs.map(r=>a`<li data-id=${r.id}>
${W(r.id,{kind:!1,href:T("why",r.id)})}<span class="soft"
>${"value"in r?Le(r.value,40):r.type}</span
>
</li>`)}
</ul>`):g}
</div>`}function og(t){let e=new Map;for(let n of t){let r=typeof n=="string"?{id:n}:n;e.has(r.name)||e.set(r.name,[]),e.get(r.name).push(r)}return[...e]}function ag(t,e){let n=e.answer?.hops??[];return n.length?a`<p class="soft">${Z(n.length,"hop")}, each from the log</p>
<ol class="hops">
${n.slice(0,ga).map(r=>a`<li
class="hop hop-${r.kind}"
data-id=${r.id}
data-sha256=${r.sha256??g}
style=${We({"--depth":Math.min(r.depth??0,12)})}
>
<div class="hop-head">
<span class="hop-kind">${r.kind}</span>${W(r.id,{kind:!1,href:r.kind==="input"?T("why",r.id):void 0})}${"value"in r?a` <code>${Le(r.value,80)}</code>`:g}
</div>
<p class="row-text">
${r.how?a`${r.how}${r.by?` by ${r.by}`:""} `:g}${r.job?a`by ${W(r.job)} `:g}${r.run?a`in
<a href=${T("run",r.run)}>${r.run}</a
>${r.recorded?.seq??r.seq?`, event ${r.recorded?.seq??r.seq}`:""}`:g}
· <code title=${r.sha256??""}>${Ue(r.sha256)}</code>
</p>
${r.action?a`<p class="row-text">
code <b>${r.action.name}</b>
<code title=${r.action.sha256??""}>${Ue(r.action.sha256)}</code>${r.action.files?a` ${Object.entries(r.action.files).slice(0,6).map(([s,i])=>a`<code class="file" title=${i}>${s}</code> `)}`:g}
</p>`:g}
${r.reads?.length?a`<p class="row-text">
reads
${og(r.reads).slice(0,8).map(([s,i],o)=>a`${o?", ":""}${s?a`${s} = `:g}${i.slice(0,4).map((l,c)=>a`${c?", ":""}${"value"in l&&/\.(with|env)\./.test(l.id)?a`<code>${Le(l.value,60)}</code>`:W(l.id)}`)}${i.length>4?` and ${i.length-4} more`:""}`)}
</p>`:g}
${r.observed?.length?a`<p class="row-text">
observed
${r.observed.slice(0,8).map((s,i)=>a`${i?", ":""}<code title=${s.sha256??s.kind}>${s.path}</code>${s.sha256?g:` (${s.kind})`}`)}${r.observed.length>8?` and ${r.observed.length-8} more`:""}
</p>`:g}
</li>`)}
</ol>
${e.answer?.not_known?.length?a`<p class="soft">
Not known:
${e.answer.not_known.slice(0,8).map((r,s)=>a`${s?", ":""}${typeof r=="string"?r:r.id??JSON.stringify(r)}`)}
</p>`:g}
${n.length>ga||e.answer.more?a`<p class="soft">and ${L((e.answer.more??0)+Math.max(n.length-ga,0))} more hops</p>`:g}${$e(t.command(e.command))}`:a`${_e("The log knows nothing of it.","It was never made or read.")}${$e(t.command(e.command))}`}var lg={completed:"succeeded"};function eh(t){let e=t.read("datasets",{run:t.params.run}),n=({command:r})=>a`${_e("This workflow composes no datasets.","A dataset plan does: its merges and branches are shown here.")}
${$e(t.command(r))}`;return a`<h1>Datasets</h1>
${ve(e,r=>r.answer?cg(t,r):n(r))}`}function cg(t,{answer:e,run:n,runs:r=[],command:s}){let i=r.filter(m=>m!==n).slice(-8),o=e.decisions??[],l=new Map(o.filter(m=>m.kind==="merge").map(m=>[m.step_id,m])),c=o.filter(m=>m.kind==="condition"),h=o.filter(m=>m.kind!=="merge"&&m.kind!=="condition");return a`<p class="soft">
${e.composition_mode} · as composed in <a href=${T("run",n)}>${n}</a>
${i.length?a`· also ${i.map(m=>a`<a href=${T("datasets",{run:m})}>${m}</a> `)}`:g}
</p>
${te("Given",dg(e.inputs_manifest??[]))}
${te("Step by step",a`<ol class="cards">
${(e.steps??[]).map(m=>hg(m,l.get(m.step_id)))}
</ol>`)}
${c.length?te("Branches",a`<ul class="cards">
${c.map(pg)}
</ul>`):g}
${h.length?te("Other decisions",h.map(m=>hs(m))):g}
${te("As it is written",a`<details>
<summary>composition_summary.json</summary>
${hs(e)}
</details>`)}
${$e(t.command(s))}`}var Qd=({rows:t,columns:e})=>t==null?g:a`<b>${L(t)}</b> rows × ${L(e)}`,dg=t=>a`<div class="scroll" tabindex="0" role="region" aria-label="Given datasets">
<table class="table narrow">
<thead>
<tr>
<th>Dataset</th>
<th>Role</th>
<th>File</th>
<th class="num">Rows</th>
<th class="num">Columns</th>
</tr>
</thead>
<tbody>
${t.map(e=>a`<tr data-id=${`Input:${e.dataset_key}`}>
<td>
${W(`Input:${e.dataset_key}`,{kind:!1,href:T("why",`Input:${e.dataset_key}`)})}
</td>
<td class="soft">${e.role}${e.used===!1?", not used":g}</td>
<td>${e.filename??e.rel_path??e.path}</td>
<td class="num">${e.rows===null?"–":L(e.rows)}</td>
<td class="num">${e.columns===null?"–":L(e.columns)}</td>
</tr>`)}
</tbody>
</table>
</div>`;function hg(t,e){return a`<li class="card step-card" data-id=${t.step_id} data-state=${t.status}>
<p class="card-title">
${W(t.step_id,{kind:!1})} <span class="soft">${t.action}</span>
${t.status==="completed"?g:pt(lg[t.status]??t.status)}
<span class="soft">${t.duration?ie(t.duration):g}</span>
</p>
<div class="flow">
<ul>
${(t.bindings??[]).map(n=>a`<li><span class="soft">${n.name}</span> ${W(n.id,{kind:!1})} ${Qd(n)}</li>`)}
</ul>
${le.arrow}
<ul>
${(t.products??[]).map(n=>a`<li>${W(n.id,{kind:!1})} ${Qd(n)}</li>`)}
</ul>
</div>
${e?ug(e):g}
${t.because?a`<p class="soft">Not run: <code>${t.because.condition??Le(t.because)}</code> is false.</p>`:g}
</li>`}function ug({rows:t,left:e,right:n,keys:r=[],how:s,cardinality:i,refused:o,renamed:l}){let c=i?.asked&&i.asked!==i.found?`, asked for ${i.asked}`:"",h=Object.entries(l??{});return a`<div class="match" data-refused=${o?"true":g}>
<p>
${o?a`<b class="bad">Refused.</b> `:g}${s} join on <b>${r.join(", ")}</b>
<span class="soft">${i?.found}${c}</span>
</p>
${t?a`${Xd(e,t.left,t.matched_left,t.unmatched_left)}${Xd(n,t.right,t.matched_right,t.unmatched_right)}`:g}
${h.length?a`<p class="soft">renamed: ${h.map(([m,u])=>`${m} → ${Le(u)}`).join(", ")}</p>`:g}
</div>`}var Xd=(t,e,n,r)=>a`<div class="share">
<span class="soft">${t}</span>
<span class="share-bar" aria-hidden="true">
<span style=${We({width:`${e?n/e*100:0}%`})}></span>
</span>
<span
><b>${L(n)}</b> of ${Z(e,"row")}
matched${r?a`, <b class="bad">${L(r)}</b> did not`:g}</span
>
</div>`;function pg({predicate:t,result:e,inputs:n={},taken:r=[],not_taken:s=[],step_id:i}){let o=l=>l.map((c,h)=>a`${h?", ":""}${W(c,{kind:!1})}`);return a`<li class="card" data-id=${i} data-code=${String(e)}>
<p class="card-title">${ut(i)} <span class="soft">is ${String(e)}</span></p>
<p class="condition"><code>${t}</code></p>
${Object.entries(n).map(([l,c])=>a`<p>${W(l,{kind:!1})} is <code>${Le(c?.value??c)}</code>.</p>`)}
<dl class="facts">
<div>
<dt>taken</dt>
<dd>${r.length?o(r):"none"}</dd>
</div>
<div>
<dt>not taken</dt>
<dd>${s.length?o(s):"none"}</dd>
</div>
</dl>
</li>`}var _i={graph:Eo,why:Eo,plan:nc,artifacts:sc,artifact:hc,runs:uc,run:mc,results:Bd,whatif:qd,diff:Kd,lineage:Zd,datasets:eh,unknown:({route:t})=>a`${_e("There is no such view.","The address may be from a newer version.")}
<p><a href=${T("graph")}>To the graph</a></p>
<p class="soft">${t.view}</p>`};var th=[["graph","Graph","jobs"],["artifacts","Artifacts","artifacts"],["results","Results"],["runs","Runs","runs"],["whatif","What if"],["diff","Compare"],["lineage","Lineage"],["datasets","Datasets","datasets"]],fg={why:"graph",plan:"graph",artifact:"artifacts",run:"runs",unknown:""},mg=new Set(["graph","why","artifacts","artifact","results","whatif","lineage","diff","plan"]),gg=new Set(["whatif"]),Ei=class extends He{static properties={route:{state:!0},ui:{state:!0},tick:{state:!0}};createRenderRoot(){return this}constructor(){super();let{config:e,source:n}=$l();this.config=e,this.source=n,this.data=new Hs(n),this.data.addEventListener("change",()=>this.requestUpdate()),this.route=Fs(location.hash),this.ui={query:"",searching:!1,active:0,help:!1,lost:!1,lines:[]},this.theme=kg("theme"),this.theme&&(document.documentElement.dataset.theme=this.theme)}connectedCallback(){super.connectedCallback(),addEventListener("hashchange",()=>this.moved()),addEventListener("keydown",e=>_l(e,this)),this.config.live&&vl(this.config.live,this.data,e=>this.heard(e)),setInterval(()=>{this.tick=Date.now()},3e4),setInterval(()=>{this.route.view==="run"&&this.read("state").value?.unfinished?.state==="running"&&(this.tick=Date.now())},1e3)}moved(){let e=this.route;this.route=Fs(location.hash),this.ui={...this.ui,searching:!1},!(e.view===this.route.view&&e.args.join()===this.route.args.join())&&this.updateComplete.then(()=>{let n=this.querySelector("#main");(!$s(e.view)||!$s(this.route.view))&&n?.focus({preventScroll:!0}),n?.querySelector(".panel")?.scrollTo(0,0),$s(this.route.view)||scrollTo(0,0)})}heard(e){(e.type==="lost"||e.type==="open")&&(this.ui={...this.ui,lost:e.type==="lost",connected:e.type==="open"}),e.type==="log"&&(this.ui={...this.ui,lines:[...this.ui.lines.slice(-499),e]}),e.type==="reset"&&(this.ui={...this.ui,lines:[]})}updated(){let e=this.querySelector("dialog.help");e&&!e.open&&e.showModal();let n=this.querySelectorAll(".tabs [aria-current], .stops [aria-current]"),r=[location.hash,n.length,this.querySelectorAll(".stops li").length].join(" ");if(this.sighted!==r){this.sighted=r;for(let s of n){let i=s.closest(".tabs, .stops"),[o,l]=[i.getBoundingClientRect(),s.getBoundingClientRect()];(l.left<o.left||l.right>o.right-24)&&(i.scrollLeft+=l.left-o.left-48)}}}async settled(){do await new Promise(e=>requestAnimationFrame(e)),await this.updateComplete;while(this.data.pending||this.querySelector(".laying-out")||[...this.querySelectorAll("img")].some(e=>!e.complete&&e.loading!=="lazy"))}read(e,n){return this.data.read(e,n)}setTheme(){let e=matchMedia("(prefers-color-scheme: dark)").matches,n=this.theme??(e?"dark":"light");this.theme=n==="dark"?"light":"dark",document.documentElement.dataset.theme=this.theme,_g("theme",this.theme),dispatchEvent(new Event("whyrun-theme")),this.requestUpdate()}render(){let e=this.read("state"),{view:n}=this.route;$s(n)&&this.read("graph");let r={app:this,route:this.route,params:this.route.params,state:e.value,live:this.source.live,ui:this.ui,read:(i,o)=>this.read(i,o),url:(i,o)=>this.source.url(i,o),command:i=>xg(i,e.value)},s=_i[n]??_i.unknown;return e.value?.at&&fl(),wg(e.value),document.title=[yg(this.route),e.value?.workflow??"Whyrun"].filter(Boolean).join(" · "),a`${this.header(e.value)}${this.tabs(e.value)}
<main
id="main"
tabindex="-1"
class="view-${n} ${$s(n)&&(!e.value||e.value.totals)?"graphic":"page"}"
>
${this.notices(e.value)}
${e.error?Gn(e.error):e.value?!e.value.totals&&mg.has(n)?vg(r):s(r):ss()}
</main>
${this.ui.help?El(()=>{this.ui={...this.ui,help:!1}}):g}`}header(e){return a`<header class="top">
<a
class="skip"
href=${location.hash||"#/graph"}
@click=${n=>{n.preventDefault(),this.querySelector("#main").focus()}}
>To the content</a
>
<a class="brand" href="#/graph"
><b>${e?.title??e?.workflow??"Whyrun"}</b
>${e?.at?a`<span class="soft">as of ${e.at}</span>`:g}</a
>
<div class="headline" data-headline>${e?bg(e):g}</div>
${yl(this)}
<button
type="button"
class="plain"
@click=${()=>this.setTheme()}
aria-label="Light or dark"
title="Light or dark (t)"
>
${le.theme}
</button>
<button
type="button"
class="plain"
@click=${()=>{this.ui={...this.ui,help:!0}}}
aria-label="Keys"
title="Keys (?)"
>
${le.help}
</button>
</header>`}tabs(e){let n=fg[this.route.view]??this.route.view;return a`<nav class="tabs" aria-label="Views">
${th.filter(([r])=>(this.source.live||!gg.has(r))&&(r!=="datasets"||e?.counts?.datasets||n==="datasets")).map(([r,s,i])=>a`<a href=${T(r)} aria-current=${n===r?"page":g}
>${s}${i&&e?.counts?.[i]?a`<span class="number" title=${L(e.counts[i])}
>${pl(e.counts[i])}</span
>`:g}</a
>`)}
${e?.others?.length?a`<details class="others">
<summary>
${L(e.others.length)} other ${e.others.length===1?"workflow":"workflows"}
</summary>
${e.others.map(r=>a`<p><b>${r.workflow}</b><code>${r.command}</code></p>`)}
</details>`:g}
</nav>`}notices(e){let n=this.source.leftOut();return a`${n.length?a`<details class="notice">
<summary>Not everything fits in this file.</summary>
${n.map(r=>a`<p>${r}</p>`)}
</details>`:g}
${this.ui.lost?a`<p class="notice" role="status">
The server does not answer. What you see is the last state. If it was started anew, open its new address.
</p>`:g}
${e?.problems?.length?a`<div class="notice bad" role="alert">
<b>The workflow file is not valid, so there is no plan.</b> ${e.problems.slice(0,8).map(r=>a`<p data-code=${r.code}>
${r.place||r.file?a`<code>${r.place??`${r.file}${r.line?`:${r.line}`:""}`}</code>: `:g}${qn(r.message)} <span class="code">${r.code}</span>${r.hint?a`<br /><span class="soft">${qn(r.hint)}</span>`:g}
</p>`)}
${e.problems.length>8?a`<p>… and ${e.problems.length-8} more</p>`:g}
</div>`:g}`}};function wg(t){let{outcomes:e,totals:n}=t??{},[r,s]=e?.failed?["failed","#d6453b"]:n?.planned?["planned","#e0873a"]:n?["clean","#3f9d66"]:["never","#8a9099"],o=`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 12 12">${`<path fill="${s}" fill-rule="evenodd" d="${ns(r)}"/>`}</svg>`,l=`data:image/svg+xml,${encodeURIComponent(o)}`,c=document.querySelector("link[rel=icon]")??document.head.appendChild(Object.assign(document.createElement("link"),{rel:"icon"}));c.href!==l&&(c.href=l)}function bg({totals:t,outcomes:e,estimate:n,unfinished:r,at:s}){if(!t)return g;let i=[["running",e?.running??0],["failed",e?.failed??0],["planned",t.planned],["reused",t.reused],["deferred",t.deferred],["open",t.open??0],["inactive",t.inactive],["clean",t.clean]].filter(([,o])=>o>0);return a`${r?a`<a class="chip tone-live" href=${T("run",r.run)}>${r.run} ${r.state}</a>`:g}
${i.map(([o,l])=>a`<a class="chip-link" href=${T("graph",{list:o})} data-total=${o} data-count=${l}
>${pt(o,{words:$g(o,l)})}</a
>`)}
${t.planned&&!s?a`<span class="soft about"
>${n==null?"time not known yet":`about ${ie(n)}`}</span
>`:g}`}var $g=(t,e)=>`${L(e)} ${t==="planned"&&G(t).word==="will run"?"to run":G(t).word}`,vg=t=>a`<p class="verdict after">Put the file right, and the plan comes back by itself. What has been run stays here.</p>
${_i.runs(t)}`,$s=t=>["graph","why","plan"].includes(t),yg=({view:t,args:e})=>e.length?e.join(" and "):th.find(([n])=>n===t)?.[1]??"";function xg(t,e){if(!t)return null;let n=Array.isArray(t)?t.join(" "):t,r=/^whyrun (\S+)/.exec(n)?.[1];return!e?.commands||!r||e.commands.includes(r)?t:null}function kg(t){try{return localStorage.getItem(`whyrun-${t}`)}catch{return null}}function _g(t,e){try{localStorage.setItem(`whyrun-${t}`,e)}catch{}}var nh=':root{color-scheme:light dark;--page: light-dark(#ffffff, #17191d);--ground: light-dark(#f6f6f4, #101215);--raised: light-dark(#ffffff, #1c1f24);--sunk: light-dark(#f4f4f2, #22262c);--line: light-dark(#e3e3df, #2e333a);--line-strong: light-dark(#c9cac6, #474d56);--edge: light-dark(#d3d4d0, #3a4048);--text: light-dark(#1b1e23, #eceef1);--soft: light-dark(#5e646d, #a4abb5);--accent: light-dark(#2c5ad6, #91adff);--accent-soft: light-dark(#eaf0fe, #202b45);--run: light-dark(#a4480a, #f6b352);--run-soft: light-dark(#fdf1e1, #35270f);--run-cell: light-dark(#e0873a, #e0a04a);--ok: light-dark(#1c6e42, #74cb93);--ok-soft: light-dark(#e7f4ec, #14291d);--ok-cell: light-dark(#86c5a0, #3f7d58);--off: light-dark(#5f656d, #a0a6af);--off-soft: light-dark(#efefed, #282c32);--off-cell: light-dark(#cfd1d3, #474d56);--bad: light-dark(#b3241b, #ff8f85);--bad-soft: light-dark(#fdeceb, #3a1a18);--bad-cell: light-dark(#d6453b, #ef6d62);--wait: light-dark(#4a5f86, #a8bde0);--wait-soft: light-dark(#ebf0f8, #20293a);--wait-cell: light-dark(#a9bad8, #566b92);--reuse: light-dark(#0c6770, #6fcdd6);--reuse-soft: light-dark(#e2f3f4, #10292c);--reuse-cell: light-dark(#6fb9c0, #2f7a82);--live: light-dark(#2c5ad6, #91adff);--live-soft: light-dark(#eaf0fe, #202b45);--live-cell: light-dark(#7f9ff0, #5b7de0);--round: 10px;--shadow: 0 1px 3px light-dark(rgb(20 22 26 / .07), rgb(0 0 0 / .4));--mono: ui-monospace, "SF Mono", "Cascadia Mono", "JetBrains Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace;font:400 clamp(14px,12.4px + .14vw,19px)/1.5 ui-sans-serif,system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue","Noto Sans",sans-serif;background:var(--page);color:var(--text);-webkit-text-size-adjust:100%}:root[data-theme=light]{color-scheme:light}:root[data-theme=dark]{color-scheme:dark}*,*:before,*:after{box-sizing:border-box}body{margin:0}h1,h2,h3,p,ul,ol,dl,dd,figure{margin:0;padding:0}ul,ol{list-style:none}h1{font-size:1.36rem;line-height:1.25;letter-spacing:-.01em;font-weight:650;text-wrap:balance}h2{font-size:.76rem;letter-spacing:.06em;text-transform:uppercase;color:var(--soft);font-weight:650}h3{font-size:1rem;font-weight:600}a{color:var(--accent);text-decoration:none}p a:not(.id),dd a:not(.id),.failure a:not(.id),.versions a,.hop a:not(.id),.hop .row-text .id{text-decoration:underline;text-decoration-color:color-mix(in srgb,currentColor 40%,transparent);text-underline-offset:.18em}p.way a,p.way a:not(.id){text-decoration:none}.card-title{font-weight:620}a:hover{text-decoration:underline;text-underline-offset:.2em}b{font-weight:620}code,pre,kbd{font-family:var(--mono);font-size:.88em}p code{overflow-wrap:anywhere}pre{margin:0;white-space:pre-wrap;overflow-wrap:anywhere}button,input,select,textarea{font:inherit;color:inherit}button{cursor:pointer}:focus-visible{outline:2px solid var(--accent);outline-offset:2px;border-radius:4px}main:focus-visible,main:focus{outline:none}summary{cursor:pointer}img{image-rendering:auto}.sr{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%);white-space:nowrap}.soft{color:var(--soft);font-weight:400}.bad{color:var(--bad)}.skip{position:fixed;top:-4em;left:1em;background:var(--raised);padding:.5em 1em;z-index:9;border-radius:6px}.skip:focus{top:.5em}.icon{fill:none;stroke:currentColor;stroke-width:1.5;stroke-linecap:round;stroke-linejoin:round;flex:none;vertical-align:-.2em}.glyph{flex:none;fill:currentColor;vertical-align:-.08em;width:.82em;height:.82em}.tone-run{color:var(--run)}.tone-ok{color:var(--ok)}.tone-off{color:var(--off)}.tone-bad{color:var(--bad)}.tone-wait{color:var(--wait)}.tone-reuse{color:var(--reuse)}.tone-live{color:var(--live)}.fill-run{fill:var(--run-cell)}.fill-ok{fill:var(--ok-cell)}.fill-off{fill:var(--off-cell)}.fill-bad{fill:var(--bad-cell)}.fill-wait{fill:var(--wait-cell)}.fill-reuse{fill:var(--reuse-cell)}.fill-live{fill:var(--live-cell)}@keyframes pulse{50%{opacity:.35}}.glyph.tone-live{animation:pulse 1.6s infinite}@media(prefers-reduced-motion:reduce){.glyph,.waiting span{animation:none!important}}whyrun-app{display:grid;height:100dvh;min-height:480px;grid-template:"top top" auto "tabs main" minmax(0,1fr) / clamp(9.4rem,9vw,12rem) minmax(0,1fr)}.top{grid-area:top;display:flex;align-items:center;gap:.6rem 1.1rem;padding:.55rem 1.2rem;min-height:3.3rem;border-bottom:1px solid var(--line);background:var(--page)}.brand{color:var(--text);font-size:1.08rem;display:flex;gap:.6em;align-items:baseline;min-width:0;flex:0 1 auto}.brand b{font-weight:680;letter-spacing:-.01em;overflow:hidden;text-overflow:ellipsis;white-space:nowrap;max-width:26ch}.brand:hover{text-decoration:none}.headline{display:flex;flex:1 1 auto;flex-wrap:wrap;align-items:center;gap:.35rem .5rem;min-width:0}.about{padding-left:.3rem;white-space:nowrap}.chip-link:hover{text-decoration:none}.chip-link:hover .chip{box-shadow:inset 0 0 0 1px currentColor}.chip{display:inline-flex;align-items:center;gap:.42em;padding:.14em .72em .16em .6em;border-radius:99px;font-size:.9rem;white-space:nowrap;line-height:1.4;background:var(--off-soft)}.chip.tone-run{background:var(--run-soft)}.chip.tone-ok{background:var(--ok-soft)}.chip.tone-bad{background:var(--bad-soft)}.chip.tone-wait{background:var(--wait-soft)}.chip.tone-reuse{background:var(--reuse-soft)}.chip.tone-live{background:var(--live-soft)}.plain{border:0;background:none;padding:.4rem;border-radius:7px;color:var(--soft);line-height:0}.plain:hover{background:var(--sunk);color:var(--text)}.top .plain+.plain{margin-left:-.9rem}.tabs{grid-area:tabs;border-right:1px solid var(--line);padding:.8rem .6rem;display:flex;flex-direction:column;gap:.12rem;overflow:auto;background:var(--page)}.tabs>a{display:flex;justify-content:space-between;align-items:center;gap:.5em;color:var(--soft);padding:.38rem .7rem;border-radius:8px;white-space:nowrap}.tabs>a:hover{background:var(--sunk);color:var(--text);text-decoration:none}.tabs>a[aria-current]{background:var(--sunk);color:var(--text);font-weight:620}.number{font-size:.8em;color:var(--soft);font-weight:400;font-variant-numeric:tabular-nums}.others{margin-top:auto;padding:.6rem .7rem 0;font-size:.86rem;color:var(--soft)}.others p{margin-top:.5rem;overflow-wrap:anywhere}.others code{display:block}main{grid-area:main;min-width:0;min-height:0;display:flex;flex-direction:column}main.page{overflow:auto;padding:1.5rem max(clamp(1rem,2.4vw,3rem),(100% - 100rem) / 2) 4rem;display:block}.notice{padding:.5rem 1.2rem;background:var(--wait-soft);color:var(--text);border-bottom:1px solid var(--line)}main.page>.notice{border-radius:var(--round);border:1px solid var(--line);margin-bottom:1.2rem;padding:.9rem 1.1rem 1rem}.notice.bad{background:var(--bad-soft)}.notice p{margin-top:.5rem;overflow-wrap:anywhere}.search{position:relative;flex:0 1 19.5rem;min-width:150px;margin-left:auto}.field{display:flex;align-items:center;gap:.5em;border:1px solid var(--line-strong);border-radius:8px;padding:.28rem .6rem;background:var(--raised);color:var(--soft);min-width:0}.field:focus-within{border-color:var(--accent);box-shadow:0 0 0 1px var(--accent)}.field input,.field select,.field textarea{border:0;background:none;outline:none;flex:1;min-width:0;width:100%;color:var(--text);padding:0;text-overflow:ellipsis}.field select option{color:initial;background:var(--raised);color:var(--text)}.field input::placeholder{color:var(--soft);opacity:1}kbd{border:1px solid var(--line-strong);border-radius:4px;padding:0 .35em;font-size:.8em;color:var(--soft);background:var(--sunk);white-space:nowrap}.hits{position:absolute;right:0;top:calc(100% + 6px);width:min(34rem,92vw);max-height:70vh;overflow:auto;background:var(--raised);border:1px solid var(--line-strong);border-radius:var(--round);box-shadow:0 12px 40px #0000002e;padding:.35rem;z-index:8}.hits li{display:grid;grid-template-columns:4.6em minmax(8em,1fr) minmax(0,auto);gap:.1em .7em;padding:.38rem .6rem;border-radius:7px;cursor:pointer;align-items:baseline}.hits li .soft{font-size:.88em;max-width:16em;overflow:hidden;text-overflow:ellipsis;white-space:nowrap}.hits li[aria-selected=true],.hits li:hover{background:var(--accent-soft)}.hits>p{padding:.4rem .6rem}.hit-kind{color:var(--soft);font-size:.84em}';var rh='main.graphic{overflow:hidden}.workbench{flex:1;min-height:0;display:grid;grid-template-columns:minmax(0,1fr) clamp(330px,27vw,540px)}.canvas{position:relative;background:var(--ground);min-width:0;min-height:0;overflow:hidden}.canvas .hint{position:absolute;left:1.2rem;bottom:.8rem;font-size:.86rem;background:color-mix(in srgb,var(--ground) 86%,transparent);padding:.1em .4em;border-radius:5px;max-width:calc(100% - 10rem);overflow-wrap:anywhere;display:-webkit-box;-webkit-line-clamp:2;-webkit-box-orient:vertical;overflow:hidden}.panel{border-left:1px solid var(--line);overflow:auto;padding:1.3rem 1.35rem 2.4rem;background:var(--page);overflow-wrap:anywhere;scrollbar-width:thin}.panel:focus-visible{outline-offset:-2px}wr-graph{position:absolute;inset:0;display:block}.graph-view{position:absolute;inset:0;overflow:hidden;cursor:grab;touch-action:none}wr-graph.dragging .graph-view{cursor:grabbing}.stage{position:absolute;left:0;top:0;transform-origin:0 0}.laying-out{position:absolute;inset:0;display:grid;place-items:center;color:var(--soft)}.lines{position:absolute;left:0;top:0;overflow:visible;pointer-events:none}.line{fill:none;stroke:var(--edge);stroke-width:1.5}.line.condition,.line.needs{stroke-dasharray:5 4}.line.dirty{stroke:var(--run-cell);stroke-width:2}.line.focus{stroke:var(--accent);stroke-width:2.2}.arrow{fill:none;stroke:var(--edge);stroke-width:1.5;stroke-linecap:round;stroke-linejoin:round}.arrow.dirty{stroke:var(--run-cell)}.arrow.focus{stroke:var(--accent)}.box{position:absolute;left:0;top:0;background:var(--raised);border-radius:12px;box-shadow:0 0 0 1px var(--line),var(--shadow);padding:10px 14px 14px;display:flex;flex-direction:column;gap:6px;overflow:hidden;font-size:14px;line-height:1.4;transition:opacity .15s}.box:hover{box-shadow:0 0 0 1px var(--line-strong),var(--shadow)}.box.edge-run{box-shadow:0 0 0 1.5px var(--run-cell),var(--shadow)}.box.edge-bad{box-shadow:0 0 0 2px var(--bad-cell),var(--shadow)}.box.edge-live{box-shadow:0 0 0 2px var(--live-cell),var(--shadow)}.box.current{box-shadow:0 0 0 2.5px var(--accent),var(--shadow)}.box.far{opacity:.5}.box.far:hover{opacity:1}.box-link{color:inherit;display:block;border:0;background:none;padding:0;text-align:left;width:100%}.box-link:after{content:"";position:absolute;inset:0;border-radius:12px}.box-link:hover{text-decoration:none}.box-link:focus-visible{outline:none}.box-link:focus-visible:after{outline:2px solid var(--accent);outline-offset:-2px}.box-title{display:flex;justify-content:space-between;gap:10px;align-items:baseline;height:20px}.box-title b{overflow:hidden;text-overflow:ellipsis;white-space:nowrap;flex:0 1 auto;min-width:3em}.box-title .soft{font-size:12px;overflow:hidden;text-overflow:ellipsis;white-space:nowrap;flex:0 0 auto;max-width:80%}.box-foot{display:flex;gap:10px;font-size:12.5px;white-space:nowrap;margin-top:auto;overflow:hidden;height:18px;flex:none}.box-text{color:var(--soft);font-size:12.5px;overflow:hidden;text-overflow:ellipsis;white-space:nowrap}.box.closed{background:var(--sunk);box-shadow:0 0 0 1px var(--line-strong),3px 3px 0 0 var(--ground),3px 3px 0 1px var(--line-strong)}.said{display:inline-flex;gap:.38em;align-items:center}.said-line{display:flex;flex-wrap:wrap;gap:.35rem 1rem;font-size:.9rem;margin-top:.5rem}.said-filter{border:1px solid var(--line);background:none;border-radius:99px;padding:.08em .7em}.said-filter:hover{border-color:currentColor}.said-filter[aria-pressed=true]{border-color:currentColor;background:var(--sunk)}.bar{display:block;width:100%;height:5px;border-radius:3px;overflow:hidden;flex:none}.panel .bar,.verdict-box .bar{margin-top:.8rem}.instances li:has(>span:empty:first-child){grid-template-columns:0 minmax(0,1fr) auto;gap:0}.box>.bar{position:absolute;left:0;right:0;bottom:0;height:4px;border-radius:0}.pictures{display:flex;gap:8px;position:relative;z-index:1;pointer-events:none}.pictures a{pointer-events:auto}.pictures img,.no-picture{width:68px;height:68px;object-fit:cover;border-radius:6px;display:block;background:var(--sunk)}.pictures.one{display:block}.pictures.one img,.pictures.one .no-picture{width:100%;height:126px;object-fit:contain;background:none}.no-picture{display:grid;place-items:center;text-align:center;color:var(--soft);font-size:11.5px;line-height:1.25;border:1px dashed var(--line-strong);padding:4px;background:none}.instance{display:block;border-radius:8px;text-align:center;color:var(--soft);position:relative}.instance:hover{text-decoration:none;box-shadow:0 0 0 2px var(--line-strong)}.instance-index{display:flex;gap:4px;justify-content:center;align-items:center;font-size:12px;line-height:20px;color:var(--soft)}.instance.state-planned,.instance.state-deferred,.instance.state-reused{background:var(--run-soft);box-shadow:0 0 0 2px var(--run-cell)}.instance.state-deferred{background:var(--wait-soft);box-shadow:0 0 0 2px var(--wait-cell)}.instance.state-reused{background:var(--reuse-soft);box-shadow:0 0 0 2px var(--reuse-cell)}.instance.state-planned .instance-index{color:var(--run);font-weight:650}.instance.state-failed{background:var(--bad-soft);box-shadow:0 0 0 2px var(--bad-cell)}.instance.state-failed .instance-index{color:var(--bad);font-weight:650}.instance.current{box-shadow:0 0 0 2.5px var(--accent)}.cells{display:grid;grid-template-columns:repeat(var(--columns),16px);gap:2px;position:relative;z-index:1;justify-content:start;margin-left:-3px}.cells a{display:grid;place-items:center;width:16px;height:16px;border-radius:4px;line-height:0}.cells .glyph{width:10px;height:10px}.cells a:hover{background:var(--sunk)}.cells a.current{box-shadow:0 0 0 2px var(--accent)}.import{position:absolute;left:0;top:0;border:1px dashed var(--line-strong);border-radius:16px;background:color-mix(in srgb,var(--text) 2.5%,transparent);padding:3px 12px;text-align:left;display:block;cursor:zoom-out}.import span{position:absolute;top:3px;left:12px;font-size:12.5px;color:var(--soft)}.zoom{position:absolute;right:.8rem;bottom:.8rem;display:flex;background:var(--raised);border-radius:9px;box-shadow:0 0 0 1px var(--line),var(--shadow)}.zoom button{border:0;background:none;padding:.45rem;line-height:0;color:var(--soft);border-radius:8px}.zoom button:hover{color:var(--text);background:var(--sunk)}wr-grid{display:block;margin:.9rem 0 .4rem}wr-grid canvas{display:block;width:100%;height:180px;border-radius:8px;background:var(--sunk);cursor:crosshair;touch-action:none}wr-grid.short canvas{height:92px}wr-grid.large canvas{height:min(34vh,24rem)}.grid-says{font-size:.86rem;color:var(--soft);min-height:1.5em;margin-top:.3rem}.time{border-top:1px solid var(--line);background:var(--page);display:grid;grid-template-columns:minmax(0,1fr) clamp(330px,27vw,540px);flex:none}.time-line{min-width:0;padding:.85rem 1.2rem .6rem}.time-facts{padding:.85rem 1.35rem .9rem;border-left:1px solid var(--line)}.time-title{display:flex;flex-wrap:wrap;gap:.1rem 1rem;align-items:baseline}.time-title p{font-size:.88rem}.small-timeline{position:relative;height:calc(var(--lanes, 1) * 18px);margin:.45rem 0 .35rem}.bit{position:absolute;top:calc(var(--lane) * 18px);height:15px;border-radius:3px;font-size:11.5px;line-height:15px;padding:0 5px;overflow:hidden;white-space:nowrap;background:var(--off-soft);border-left:3px solid currentColor;min-width:3px}.bit.tone-ok{background:var(--ok-soft)}.bit.tone-bad{background:var(--bad-soft)}.bit.tone-reuse{background:var(--reuse-soft)}.bit.tone-live{background:var(--live-soft)}.bit.tone-wait{background:var(--wait-soft)}.bit.tiny{padding:0;border-left:0;background:color-mix(in srgb,currentColor 60%,var(--page))}.time.none{display:block;padding:.7rem 1.2rem}.stops{display:grid;grid-auto-flow:column;grid-auto-columns:minmax(max-content,8rem);justify-content:start;overflow-x:auto;scrollbar-width:none;padding:3px;margin:.5rem 0 0 -3px}.stops li{position:relative;padding-right:1rem}.stops li:not(:last-child):after{content:"";position:absolute;left:25px;right:5px;top:9px;border-top:2px solid var(--line)}.stops li.earlier:after{display:none}.stops a{color:var(--soft);display:grid;justify-items:start;gap:.15rem;font-size:.84rem;border-radius:6px;width:max-content}.stops a:hover{text-decoration:none;color:var(--text)}.stop-mark{display:grid;place-items:center;width:20px;height:20px;border-radius:50%;background:var(--page)}.stop-mark .glyph{width:12px;height:12px}.stops a[aria-current]{color:var(--accent)}.stops a[aria-current] .stop-mark{box-shadow:inset 0 0 0 2.5px var(--accent)}.now .stop-mark:after{content:"";width:6px;height:6px;border-radius:50%;background:var(--line-strong)}.now a[aria-current] .stop-mark:after{background:var(--accent)}.stops a[aria-current] .glyph{width:9px;height:9px}.stops .earlier a{padding-top:22px}.time-facts h3{font-size:.84rem;margin-bottom:.2rem}.time-facts h3 a{color:var(--soft)}.time-facts dl>div{display:inline-flex;gap:.45em;margin-right:1.1em;font-size:.88rem}.time-facts dt{color:var(--soft)}';var sh='.way{display:flex;justify-content:space-between;align-items:center;margin:-.4rem 0 .7rem;font-size:.9rem;min-height:1.8em}.way a{display:inline-flex;align-items:center;gap:.2em;color:var(--soft);margin-left:-.25em}.way a:hover{color:var(--accent)}.steps{display:flex;gap:.2rem}.step{border-radius:6px;padding:.15rem}.step[aria-disabled]{opacity:.35;pointer-events:none}.panel h1+.soft{margin-top:.2rem}.panel h1+.soft+.soft{margin-top:.5rem}.id{color:var(--text);overflow-wrap:anywhere}.id:hover{color:var(--accent)}.kind{color:var(--soft);font-weight:400}.id-title{font-size:1.22rem;overflow-wrap:anywhere;text-wrap:initial}.chips{display:flex;gap:.4rem;flex-wrap:wrap;margin-bottom:.5rem}.sentence .id,.chain .id,.failure .id{font-weight:560}.cause{margin-top:1.35rem}.cause h2,.cause.follows h2{font-size:1rem;text-transform:none;letter-spacing:0;color:var(--text);margin-bottom:.55rem}.lead{color:var(--soft);font-weight:400}.opening{margin-bottom:.7rem}.opening-job{display:flex;align-items:center;gap:.6em;margin-bottom:.4rem;flex-wrap:wrap}.opening-job .id{font-weight:600}.jobs{display:grid;gap:.3rem}.jobs li{display:flex;gap:.55em;align-items:baseline;flex-wrap:wrap}.jobs .id{font-weight:560}.jobs .glyph{margin-right:.5em}.jobs li>.glyph{margin-right:0}.note{margin-top:.5rem;font-size:.9rem}.reasons{display:grid;gap:.7rem;margin-top:1rem}[role=listitem]:has(>.code-follows)+[role=listitem]:has(>.code-follows){margin-top:-.7rem}[role=listitem]:has(>.code-follows):has(+[role=listitem]>.code-follows)>.reason{border-bottom:0;border-bottom-left-radius:0;border-bottom-right-radius:0;padding-bottom:0}[role=listitem]:has(>.code-follows)+[role=listitem]>.code-follows{border-top:0;border-top-left-radius:0;border-top-right-radius:0;padding-top:.4rem}[role=listitem]:has(>[data-code=UPSTREAM_DIRTY])+[role=listitem]>[data-code=UPSTREAM_DIRTY]>.code,[role=listitem]:has(>[data-code=UPSTREAM_FAILED])+[role=listitem]>[data-code=UPSTREAM_FAILED]>.code{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%)}.reason{border:1px solid var(--line);border-radius:var(--round);padding:.75rem .9rem .85rem;background:var(--raised)}.reason .code,.code{font:650 .74rem/1.4 var(--mono);letter-spacing:.03em;color:var(--soft)}.reason.code-own .code{color:var(--run)}.reason[data-code=condition_false] .code{color:var(--off)}.reason[data-code=RETRY_PREVIOUS_FAILURE] .code{color:var(--bad)}.sentence{margin-top:.25rem}.condition{margin:.3rem 0 .5rem}.soft+.reason{margin-top:1rem}.word{white-space:nowrap}.sentence .id{color:var(--accent)}.quote{color:var(--soft)}.verdict{margin-top:.9rem}.verdict.after{margin:0 0 1.6rem}.then-now{display:flex;align-items:center;gap:.8rem;margin-top:.8rem;flex-wrap:wrap}.then-now img,.then-now .no-picture{width:clamp(84px,6vw,128px);height:clamp(84px,6vw,128px);object-fit:cover;border-radius:8px;background:var(--sunk)}.then-now img{display:block}.then-now figcaption{font-size:.8rem;color:var(--soft);text-align:center;margin-top:.25rem}.to{color:var(--soft);line-height:0}.path{font-size:.88rem;overflow-wrap:anywhere;min-width:0}.then-now .path{flex:1 1 9rem}.values{display:flex;flex-wrap:wrap;gap:.35rem .6rem;align-items:center;margin-top:.6rem;font-family:var(--mono);font-size:.88em}.was,.is{padding:.12em .5em;border-radius:6px;overflow-wrap:anywhere;white-space:pre-wrap}.was{background:var(--bad-soft);color:var(--text)}.is{background:var(--ok-soft);color:var(--text)}.hashes{display:flex;gap:.5em;align-items:center;margin-top:.5rem;color:var(--soft)}.diff{margin-top:.6rem;font:.84em/1.5 var(--mono);border:1px solid var(--line);border-radius:7px;overflow:auto;max-height:26rem}.diff>div{display:flex;white-space:pre-wrap;overflow-wrap:anywhere;padding:0 .5em}.diff .mark{width:1.2em;flex:none;user-select:none}.added{background:var(--ok-soft)}.removed{background:var(--bad-soft)}.diff .same{color:var(--soft)}.diff .hunk{color:var(--soft);background:var(--sunk);font-family:inherit}.section{margin-top:1.5rem}.section>h2{display:flex;justify-content:space-between;gap:1em;margin-bottom:.55rem}.facts{display:grid;gap:.3rem;margin-top:.5rem}.facts>div{display:grid;grid-template-columns:minmax(4.5em,min(30%,10em)) minmax(0,1fr);gap:.8em;align-items:baseline}.facts dt{color:var(--soft);overflow-wrap:anywhere}.facts dd{overflow-wrap:anywhere}.chain{display:grid;gap:.62rem;position:relative}.chain li{display:grid;grid-template-columns:1.2rem minmax(0,1fr);position:relative;align-items:baseline}.chain li:before{content:"";width:9px;height:9px;border-radius:50%;box-shadow:inset 0 0 0 2px var(--line-strong);background:var(--page);position:relative;z-index:1;top:.05em}.chain li.root:before{background:var(--run);box-shadow:none}.chain li.here:before{background:var(--accent);box-shadow:none}.chain li:not(:last-child):after{content:"";position:absolute;left:4px;top:1.1em;bottom:-1.1em;width:1px;background:var(--line-strong)}.chain li.stop:before{border-radius:2px;transform:rotate(45deg) scale(.8)}.made{display:grid;gap:.6rem}.made li{display:flex;gap:.8rem;align-items:center}.made img{width:72px;height:72px;object-fit:contain;border-radius:7px;display:block;background:var(--sunk)}.made span .soft{font-size:.9em}.failure{border:1px solid color-mix(in srgb,var(--bad) 38%,var(--line));background:color-mix(in srgb,var(--bad-soft) 55%,var(--raised));border-radius:var(--round);padding:.8rem .9rem;margin-top:1rem}.failure-head{display:flex;gap:.45em;align-items:baseline;flex-wrap:wrap}.failure-error{margin-top:.35rem;font-family:var(--mono);font-size:.9em;overflow-wrap:anywhere;white-space:pre-wrap}.failure summary{margin-top:.5rem;color:var(--soft)}.more-failures{margin-top:1rem}.failures>p{margin-top:.6rem}.failure-more{margin-top:.4rem;font-size:.92em}.failure .glyph{position:relative;top:.05em}.output{position:relative;margin-top:.35rem}.output pre{background:var(--raised);border:1px solid var(--line);border-radius:7px;padding:.6rem 2.6rem .6rem .7rem;max-height:22rem;overflow:auto;font-size:.84em}.output .trace{white-space:pre;overflow-wrap:normal}.output .copy{position:absolute;right:.3rem;top:.3rem;background:var(--raised)}.command{margin-top:1.7rem}.command+.command{margin-top:.8rem}.command figcaption{font-size:.8rem;color:var(--soft);margin-bottom:.25rem}.command-line{display:flex;align-items:center;gap:.5rem;background:var(--sunk);border-radius:8px;padding:.3rem .35rem .3rem .7rem}.command-line code{flex:1;overflow-wrap:anywhere;min-width:0}.copy{border:0;background:none;color:var(--soft);padding:.35rem;border-radius:6px;line-height:0;position:relative}.copy:hover{color:var(--text);background:var(--line)}.copied{position:absolute;right:100%;top:50%;translate:0 -50%;line-height:1.3;font-size:.82rem;background:var(--raised);padding:0 .4em;border-radius:4px;white-space:nowrap}.copied:empty{display:none}.empty{color:var(--soft);padding:2rem 0}.empty-title{color:var(--text);font-weight:600}.problem{border:1px solid var(--line-strong);border-radius:var(--round);padding:.8rem 1rem;margin:1rem 0;background:var(--raised);max-width:46rem;overflow-wrap:anywhere}.canvas>.problem{margin:1.2rem}.waiting{display:flex;flex-direction:column;gap:.6rem;padding:1rem 0;max-width:20rem}.waiting span{height:.8rem;border-radius:4px;background:var(--sunk);animation:pulse 1.6s infinite}.waiting span:nth-child(2){width:80%}.waiting span:nth-child(3){width:55%}.canvas>.waiting{padding:2rem}.filters{display:flex;gap:.5rem;margin:1rem 0 .3rem;flex-wrap:wrap}.filters .field{flex:1 1 9rem}.filters select{min-width:8em}.total{margin:.3rem 0 .4rem}.instances li{display:grid;grid-template-columns:1.3rem minmax(0,1fr) auto;gap:.3rem;padding:.34rem 0;border-top:1px solid var(--line);align-items:baseline}.row-text{display:block;font-size:.88em;color:var(--soft);overflow-wrap:anywhere}.row-text.bad{color:var(--bad)}.row-text b{font-weight:560}.row-end{font-size:.88em;font-variant-numeric:tabular-nums}.pager{display:flex;gap:.8rem;align-items:center;margin-top:.8rem}.pager button,.button{border:1px solid var(--line-strong);border-radius:7px;background:var(--raised);padding:.2rem .8rem}.pager button:disabled{opacity:.45;cursor:default}.button:hover{border-color:var(--accent)}.button.main{background:var(--accent);color:var(--page);border-color:var(--accent)}.help{border:1px solid var(--line-strong);border-radius:14px;background:var(--raised);color:var(--text);padding:1.3rem 1.6rem 1.6rem;max-width:min(36rem,92vw);max-height:88vh;overflow:auto}.help::backdrop{background:#00000059}.help .close{position:absolute;right:.7rem;top:.7rem}.help h2{margin:.6rem 0}.help dl>div{display:grid;grid-template-columns:8.5em 1fr;gap:1em;padding:.15rem 0}.help dd{color:var(--soft)}.help h2:nth-of-type(2){margin-top:1.2rem}.help dt kbd{margin-right:.3em}';var ih='main.page>h1{margin-bottom:.35rem}main.page .way{margin-top:-.3rem}.scroll{position:relative;overflow-x:auto;margin:.6rem 0;max-width:100%;--shade: color-mix(in srgb, var(--text) 16%, transparent);background:linear-gradient(to right,var(--page) 30%,transparent) 0 0 / 2.4rem 100% no-repeat local,linear-gradient(to left,var(--page) 30%,transparent) 100% 0 / 2.4rem 100% no-repeat local,linear-gradient(to right,var(--shade),transparent) 0 0 / .7rem 100% no-repeat scroll,linear-gradient(to left,var(--shade),transparent) 100% 0 / .7rem 100% no-repeat scroll}.table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}.table th{text-align:left;color:var(--soft);font-weight:500;font-size:.86rem;padding:.35rem .9rem .35rem 0;border-bottom:1px solid var(--line-strong);white-space:nowrap;vertical-align:bottom}.table td{padding:.42rem .9rem .42rem 0;border-bottom:1px solid var(--line);vertical-align:top;overflow-wrap:break-word}.table td:has(>.id),.table .whole,.table .long{overflow-wrap:anywhere;min-width:9em}.table .long{min-width:16em}.table .num,.table .num:has(>.id){min-width:0;overflow-wrap:normal}.table tbody tr:hover{background:color-mix(in srgb,var(--sunk) 55%,transparent)}.table.narrow{width:auto;min-width:min(100%,18rem)}.table .num{text-align:right;white-space:nowrap}.table .num+:not(.num){padding-left:1rem}.table.small{font-size:.92em}.table.small td{padding-block:.28rem}.table th button{border:0;background:none;padding:0;color:inherit;font:inherit}.table th[aria-sort=ascending] button:after{content:" \\2191"}.table th[aria-sort=descending] button:after{content:" \\2193"}.th-kind{display:block;font-size:.86em;font-weight:400}.table .changed{background:var(--run-soft)}wr-plot,wr-compare,wr-network,wr-timeline{display:block}meter{display:block;width:100%;min-width:5rem;height:4px;margin-top:.25rem;border:0;background:var(--sunk);border-radius:2px;overflow:hidden}meter::-webkit-meter-bar{background:var(--sunk);border:0;height:4px;border-radius:2px}meter::-webkit-meter-optimum-value{background:var(--line-strong);border-radius:2px}meter::-moz-meter-bar{background:var(--line-strong)}.table-head{display:flex;justify-content:space-between;align-items:center;margin-top:1rem}.columns{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,26rem),1fr));gap:0 3rem}.links{display:flex;gap:1rem}.num{white-space:nowrap}.ranked li{display:flex;justify-content:space-between;gap:1rem;padding:.2rem 0;border-bottom:1px solid var(--line)}.progress{margin:.8rem 0;display:flex;gap:1rem;align-items:center;flex-wrap:wrap}progress{flex:1 1 14rem;height:8px;border:0;border-radius:4px;overflow:hidden;background:var(--sunk);accent-color:var(--accent)}progress::-webkit-progress-bar{background:var(--sunk)}progress::-webkit-progress-value{background:var(--accent)}.timeline{position:relative;background:var(--ground);border-radius:8px;padding:.7rem .8rem .2rem;overflow:hidden}.rows{position:relative;height:calc(var(--lanes) * 22px);max-height:30rem;overflow-y:auto}.timeline .bit{top:calc(var(--lane) * 22px);height:19px;line-height:19px;font-size:12.5px;text-decoration:none}.timeline .bit:hover{filter:brightness(.96)}.bit.retried{opacity:.75;border-left-style:double}.gap{position:absolute;top:0;bottom:0;border-inline:1px dashed var(--line-strong);background:repeating-linear-gradient(45deg,transparent 0 4px,var(--line) 4px 5px)}.axis{position:relative;height:1.6em;margin-top:.4rem;border-top:1px solid var(--line)}.axis span{position:absolute;font-size:.78rem;color:var(--soft);white-space:nowrap;padding-left:.25em;border-left:1px solid var(--line-strong);line-height:1.5}.marks{margin-top:.5rem;font-size:.92em}wr-timeline canvas{display:block;width:100%}.log pre{max-height:16rem}.tags+.tags,.tags+wr-plot,h1+.tags,.filters+.tags,.filters+wr-plot{margin-top:.6rem}.tags{display:flex;flex-wrap:wrap;gap:.35rem;flex:1 1 auto}.tag{border:1px solid var(--line-strong);border-radius:99px;padding:.1rem .8rem;background:none}.tag:hover{border-color:var(--accent)}.tag[aria-pressed=true]{background:var(--accent-soft);border-color:var(--accent);color:var(--text)}.filters>.field{max-width:22rem}.filters.narrow .field{flex:0 1 12rem}.gallery{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(42vw,11rem),1fr));gap:1rem;margin:1rem 0 1.6rem}.gallery a{color:inherit;display:block;font-size:.9rem}.gallery a:hover{text-decoration:none}.gallery img,.gallery .no-picture{width:100%;height:auto;aspect-ratio:1;object-fit:contain;border-radius:var(--round);background:var(--sunk);display:grid;margin-bottom:.4rem}.gallery a:hover img{box-shadow:0 0 0 2px var(--accent)}.gallery-name{display:flex;gap:.4em;align-items:baseline}.gallery-name .glyph{color:var(--run)}.preview{margin:1rem 0}.picture{max-width:100%;max-height:62vh;border-radius:var(--round);background:var(--sunk);display:block}iframe{width:100%;height:60vh;border:1px solid var(--line-strong);border-radius:var(--round);background:#fff}.preview-foot{margin-top:.5rem}video{max-width:100%;max-height:60vh}.preview pre{max-height:60vh}.value code{font-size:1.3rem;overflow-wrap:anywhere}.thumb{max-width:9rem;max-height:9rem;display:block;border-radius:6px;margin-top:.3rem}.versions{display:grid;gap:.6rem}.versions li{display:flex;gap:.8rem;align-items:center}.versions li>span{flex:1}.versions img{width:56px;height:56px;object-fit:cover;border-radius:7px;background:var(--sunk)}.versions .current img{box-shadow:0 0 0 2px var(--accent)}.compare{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,15rem),1fr));gap:1.2rem;margin-top:.8rem;max-width:52rem}.slider{position:relative;display:grid;border-radius:var(--round);overflow:hidden;background:var(--sunk)}.slider img,.difference{width:100%;display:block;grid-area:1 / 1}.difference{border-radius:var(--round)}.slider .over{clip-path:inset(0 calc(100% - var(--at)) 0 0)}.handle{position:absolute;left:var(--at);top:0;bottom:0;width:2px;background:var(--accent);translate:-1px;pointer-events:none}.handle:after{content:"";position:absolute;top:50%;left:50%;width:22px;height:22px;translate:-50% -50%;border-radius:50%;background:var(--accent);box-shadow:0 0 0 3px var(--raised)}.slider input{grid-area:1 / 1;width:100%;height:100%;margin:0;opacity:0;cursor:ew-resize;position:relative}.slider:focus-within{outline:2px solid var(--accent);outline-offset:2px}.compare figcaption{display:flex;justify-content:space-between;font-size:.88rem;color:var(--soft);margin-top:.3rem}.details{margin:.5rem 0;padding-left:1.2em;list-style:disc;color:var(--soft)}.content-pair{display:grid;grid-template-columns:minmax(11rem,17rem) minmax(0,1fr);gap:2rem}.choose{align-content:start}.choose button{border:0;background:none;padding:.15rem .5rem;margin-left:-.5rem;border-radius:6px;text-align:left;overflow-wrap:anywhere}.choose button[aria-pressed=true]{background:var(--accent-soft);font-weight:600}.choose .soft{font-size:.88em}.choose li{display:block}.card{border:1px solid var(--line);border-radius:var(--round);padding:.8rem 1rem;background:var(--raised)}.runs-pair{gap:1rem;margin-top:1rem}.cards{display:grid;gap:.8rem;grid-template-columns:minmax(0,1fr)}.flow{display:grid;grid-template-columns:minmax(0,1fr) auto minmax(0,1fr);gap:.3rem 1.4rem;align-items:center;margin:.5rem 0}.flow .icon{color:var(--soft)}.step-card .soft{font-weight:400}.match{border-top:1px solid var(--line);padding-top:.5rem;margin-top:.6rem;display:grid;gap:.3rem}.share{display:grid;grid-template-columns:minmax(6rem,11rem) minmax(4rem,14rem) 1fr;gap:1rem;align-items:center}.share-bar{height:6px;border-radius:3px;background:var(--bad-cell);overflow:hidden}.share-bar>span{display:block;height:100%;background:var(--ok-cell)}.json{font-family:var(--mono);font-size:.88em;margin:.4rem 0}.json-node>button:first-child{border:0;background:none;padding:.08rem .2rem;font:inherit;display:inline-flex;gap:.5em;align-items:center;border-radius:4px}.json-node>button:hover{background:var(--sunk)}.json ul{padding-left:1.15rem;border-left:1px solid var(--line);margin-left:.42rem}.twist{width:0;height:0;border:4px solid transparent;border-left:6px solid var(--soft);border-right:0}[aria-expanded=true]>.twist{rotate:90deg}.json-leaf{display:flex;gap:.8em;padding:.08rem 0 .08rem 1.1rem;overflow-wrap:anywhere}.json-key{color:var(--soft);flex:none;max-width:40%}.json-key:after{content:":"}.json-string{color:var(--ok);white-space:pre-wrap}.json-number,.json-boolean{color:var(--accent)}.json-null{color:var(--soft)}wr-json{display:block}.hops{display:grid;gap:.5rem;margin-top:.8rem}.hop{margin-left:calc(var(--depth) * clamp(.7rem,1.6vw,1.6rem));border-left:3px solid var(--line-strong);padding:.2rem 0 .3rem .9rem}.hop-input{border-color:var(--accent)}.hop-head{display:flex;gap:.6em;align-items:baseline;flex-wrap:wrap}.hop-kind{color:var(--soft);font-size:.82rem}.hop .id{font-weight:560}.row-text .id{font-weight:400}.file{background:var(--sunk);padding:0 .3em;border-radius:4px}.whatif{display:grid;grid-template-columns:minmax(16rem,22rem) minmax(0,1fr);gap:2.4rem;margin-top:1.2rem}fieldset{border:0;padding:0;margin:0 0 1.4rem;min-width:0}legend{font-size:.76rem;letter-spacing:.06em;text-transform:uppercase;color:var(--soft);font-weight:650;margin-bottom:.4rem;padding:0}.question{display:flex;justify-content:space-between;gap:.8rem;align-items:center;padding:.3rem 0;border-bottom:1px solid var(--line);flex-wrap:wrap}.question label{display:inline-flex;gap:.5em;align-items:baseline;min-width:0;flex:0 1 auto}.question label input{align-self:start;margin-top:.2em}.question.last{margin-bottom:.9rem}.picks{display:flex;gap:1rem;font-size:.92em}.literal{flex:0 1 9em;width:9em;border:1px solid var(--line-strong);border-radius:6px;background:var(--raised);padding:.1rem .5rem}.inset{height:44vh;border-radius:var(--round);margin:1rem 0;border:1px solid var(--line)}.plain-head{font-size:1.2rem;text-transform:none;letter-spacing:0;color:var(--text)}.line-block{display:block}.verdict-box .bar{margin-top:.6rem}.answers>.empty:first-child{padding-top:0}input[type=checkbox]{accent-color:var(--accent);width:1.05em;height:1.05em;margin:0;flex:none}.plot{margin:.6rem 0}.u-legend{font-size:.86rem;text-align:left}.u-legend th{font-weight:400}.plot-left:empty{display:none}.network text{font-size:12.5px;fill:var(--text)}.net-node{fill:var(--raised);stroke:var(--line-strong)}.network{background:var(--ground);border-radius:var(--round);max-height:62vh;overflow:auto}@media(max-width:820px){.whatif,.content-pair{grid-template-columns:minmax(0,1fr);gap:1rem}}';var oh='@media(max-width:1080px){whyrun-app{grid-template:"top" auto "tabs" auto "main" minmax(0,1fr) / minmax(0,1fr)}.tabs{flex-direction:row;border-right:0;border-bottom:1px solid var(--line);padding:.35rem .8rem;scrollbar-width:none}.others{display:none}.workbench{grid-template-columns:minmax(0,1fr) minmax(300px,40vw)}.time{grid-template-columns:minmax(0,1fr)}.time-facts{display:none}.tabs{padding-right:2.4rem;mask-image:linear-gradient(to right,#000 calc(100% - 2.4rem),transparent);overflow-x:auto}}@media(max-width:720px){whyrun-app{display:block;height:auto}.top{flex-wrap:wrap;padding:.55rem .9rem}.brand{flex:1}.search{order:3;flex:1 1 100%}.headline{order:4;flex:1 1 100%}.top .plain{margin-left:0}.top .plain+.plain{margin-left:-.4rem}.top kbd{display:none}.tabs{position:sticky;top:0;z-index:5;padding:.3rem 2.4rem .3rem .6rem}main.graphic{overflow:visible}main.page{padding:1.1rem .9rem 3rem}.workbench{display:flex;flex-direction:column}.canvas{order:2;height:64vh;flex:none;border-top:1px solid var(--line)}.panel{border:0;overflow:visible;padding:1rem .9rem 1.3rem}.canvas .hint{display:none}.flow,.share{grid-template-columns:minmax(0,1fr)}.about{display:none}.hits li{grid-template-columns:4.6em minmax(0,1fr)}.hits li .soft{grid-column:2;max-width:none}.scroll>.table:not(.narrow,.stack,.fit){min-width:34rem}.table.fit td:has(>.id){min-width:6em}.table.stack thead{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%)}.table.stack tr{display:flex;flex-wrap:wrap;gap:.15rem .9rem;padding:.55rem 0;border-bottom:1px solid var(--line);align-items:baseline}.table.stack td{border:0;padding:0}.table.stack .whole{flex:1 1 100%}.table.stack meter{display:none}.time-line{padding:.8rem .9rem 1.4rem}}@media(min-height:1100px)and (min-width:1081px){.time-line,.time-facts{padding-block:1.2rem}}@media print{:root,:root[data-theme]{color-scheme:light}whyrun-app{display:block;height:auto}.tabs,.search,.plain,.zoom,.copy,.way,.filters,.skip,.hint{display:none!important}.workbench{display:block}.canvas{height:11cm;break-inside:avoid}.panel,main.page,main.graphic{overflow:visible;border:0}.reason,.failure{break-inside:avoid}.output pre,.diff{max-height:none}}';var ah='.uplot,.uplot *,.uplot *:before,.uplot *:after{box-sizing:border-box}.uplot{font-family:system-ui,-apple-system,Segoe UI,Roboto,Helvetica Neue,Arial,Noto Sans,sans-serif,"Apple Color Emoji","Segoe UI Emoji",Segoe UI Symbol,"Noto Color Emoji";line-height:1.5;width:min-content}.u-title{text-align:center;font-size:18px;font-weight:700}.u-wrap{position:relative;user-select:none}.u-over,.u-under{position:absolute}.u-under{overflow:hidden}.uplot canvas{display:block;position:relative;width:100%;height:100%}.u-axis{position:absolute}.u-legend{font-size:14px;margin:auto;text-align:center}.u-inline{display:block}.u-inline *{display:inline-block}.u-inline tr{margin-right:16px}.u-legend th{font-weight:600}.u-legend th>*{vertical-align:middle;display:inline-block}.u-legend .u-marker{width:1em;height:1em;margin-right:4px;background-clip:padding-box!important}.u-inline.u-live th:after{content:":";vertical-align:middle}.u-inline:not(.u-live) .u-value{display:none}.u-series>*{padding:4px}.u-series th{cursor:pointer}.u-legend .u-off>*{opacity:.3}.u-select{background:#00000012;position:absolute;pointer-events:none}.u-cursor-x,.u-cursor-y{position:absolute;left:0;top:0;pointer-events:none;will-change:transform}.u-hz .u-cursor-x,.u-vt .u-cursor-y{height:100%;border-right:1px dashed #607D8B}.u-hz .u-cursor-y,.u-vt .u-cursor-x{width:100%;border-bottom:1px dashed #607D8B}.u-cursor-pt{position:absolute;top:0;left:0;border-radius:50%;border:0 solid;pointer-events:none;will-change:transform;background-clip:padding-box!important}.u-axis.u-off,.u-select.u-off,.u-cursor-x.u-off,.u-cursor-y.u-off,.u-cursor-pt.u-off{display:none}';var lh=new CSSStyleSheet;lh.replaceSync([ah,nh,rh,sh,ih,oh].join(`
`));document.adoptedStyleSheets=[lh];customElements.define("whyrun-app",Ei);document.body.append(document.createElement("whyrun-app"));})();
